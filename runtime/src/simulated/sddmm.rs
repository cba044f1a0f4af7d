//! SDDMMs on the simulator.

use bsr_codegen::{Op, Plan};
use bsr_simulator::{Options, Report};

use super::lines::writers_of;
use super::memory::{Blocks, rows_of};
use super::{Simulated, SimulatedError};
use crate::epilogue::{Inputs, Results};
use crate::gpu::held;
use crate::kernel::arguments::UntypedHostCall;
use crate::kernel::matrix::{HostDense, HostView};
use crate::kernel::{KernelError, fit, sddmm};
use crate::operation::{self, Operands as _, Sddmm};
use crate::{Element, Structure};

/// The factors, and where the blocks of the result are.
///
/// # Errors
/// [`KernelError::Factors`] and [`KernelError::Result`] of a kernel of another operation.
pub(super) fn factors<'h>(
    op: Op,
    call: &UntypedHostCall<'h>,
) -> Result<(HostDense<'h>, HostDense<'h>, &'h Structure), KernelError> {
    match (op, call.a, call.b, call.pattern) {
        (Op::Sdd, HostView::Dense(a), HostView::Dense(b), Some(pattern)) => Ok((a, b, pattern)),
        (Op::Sdd, ..) => Err(KernelError::Factors { expected: op }),
        (op, ..) => Err(KernelError::Result { op }),
    }
}

/// Whether the operands fit the kernel.
///
/// # Errors
/// Operands that do not.
pub(super) fn fitting<C: Element>(
    plan: &Plan,
    (a, b): (&HostDense<'_>, &HostDense<'_>),
    structure: &Structure,
    inputs: &Inputs,
) -> Result<(), KernelError> {
    sddmm::operands(plan, &a.operand, &b.operand, (C::DTYPE, structure))?;
    let scales = inputs.scales_given();
    sddmm::scales(plan, scales.kind())?;
    fit::sddmm_epilogue(plan, structure, inputs)
}

impl Simulated {
    pub(super) fn sparse_result<C: Element>(
        &self,
        a: &HostDense<'_>,
        b: &HostDense<'_>,
        structure: &Structure,
        inputs: &Inputs,
        options: &Options,
    ) -> Result<(Results<Vec<C>>, Report), SimulatedError> {
        fitting::<C>(&self.plan, (a, b), structure, inputs)?;
        if self.plan.spec().batch.is_on() {
            return Err(KernelError::Batch { batch: true }.into());
        }
        let (k, mut sim) = (a.operand.cols, self.machine(options));
        let mut values = held(inputs).unwrap_or_else(|| vec![C::POISON; structure.stored()]);
        let id = sim.bytes(C::to_bytes(&values));
        // Factors without K are not read.
        let unread = (k == 0).then_some(id);
        let sddmm = Sddmm {
            a: self.factor(&mut sim, a, unread),
            b: self.factor(&mut sim, b, unread),
            c: Blocks { structure, values: sim.result(id), spare: 0 },
            inputs: &self.further(&mut sim, inputs),
            second: self.second(&mut sim, structure.rows()),
        };
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { operation::launch(&mut sim, &self.plan, &sddmm, |sim| self.list(sim, structure, k))? };
        if !sddmm.is_empty() {
            self.records.keep(sim.records());
            writers_of(&mut sim.report, id, [size_of_val(&values[..]); 2]);
            values.copy_from_slice(&C::from_bytes(sim.memory.bytes(id)));
        }
        Ok((Results { c: values, rows: rows_of(&sim, sddmm.second) }, sim.report))
    }
}
