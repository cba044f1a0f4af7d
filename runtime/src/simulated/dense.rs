//! Products with a dense result on the simulator.

use bsr_codegen::{Op, Pdl};
use bsr_simulator::{Options, Report};

use super::lines::writers_of;
use super::lists::SPARE;
use super::memory::{Blocks, apart, copy_lines, rows_of};
use super::{Simulated, SimulatedError};
use crate::epilogue::{Inputs, Results};
use crate::gpu::initial;
use crate::kernel::arguments::UntypedHostCall;
use crate::kernel::matrix::{HostDense, HostSparse, HostView};
use crate::kernel::{KernelError, fit};
use crate::machine::Sim;
use crate::operation::{self, Operands as _, Product};
use crate::{Dense, Element};

/// The sparse factor and the dense one.
///
/// # Errors
/// [`KernelError::Factors`] where the operation multiplies others.
pub(super) fn factors<'h>(op: Op, call: &UntypedHostCall<'h>) -> Result<(HostSparse<'h>, HostDense<'h>), KernelError> {
    match (op, call.a, call.b) {
        (Op::Dsd, HostView::Sparse(sparse), HostView::Dense(dense))
        | (Op::Dds, HostView::Dense(dense), HostView::Sparse(sparse)) => Ok((sparse, dense)),
        (expected, ..) => Err(KernelError::Factors { expected }),
    }
}

/// What is asked of the result, and the extents of the product.
///
/// # Errors
/// Operands that do not fit the kernel.
pub(super) fn fitting<C: Element>(
    kernel: &Simulated,
    sparse: &HostSparse<'_>,
    dense: &HostDense<'_>,
    inputs: &Inputs,
) -> Result<fit::Shapes, KernelError> {
    let spec = kernel.plan.spec();
    let (rows, cols) = fit::Shapes::of(spec, sparse.structure, &dense.operand).result;
    let product = fit::Operand { dtype: C::DTYPE, layout: spec.c_layout, rows, cols };
    let shapes = fit::operands(&kernel.plan, (sparse.dtype, sparse.structure), &dense.operand, &product)?;
    let scales = inputs.scales_given();
    let counts = [scales.a().len(), scales.b().len()];
    fit::scales(&kernel.plan, sparse.structure, shapes.along, scales.kind(), counts)?;
    Ok(shapes)
}

impl Simulated {
    pub(super) fn dense_result<C: Element>(
        &self,
        sparse: &HostSparse<'_>,
        dense: &HostDense<'_>,
        inputs: &Inputs,
        options: &Options,
    ) -> Result<(Results<Dense<C>>, Report), SimulatedError> {
        let spec = self.plan.spec();
        if spec.batch.is_on() {
            return Err(KernelError::Batch { batch: true }.into());
        }
        let shapes = fitting::<C>(self, sparse, dense, inputs)?;
        let (layout, (rows, cols)) = (spec.c_layout, shapes.result);
        fit::epilogue(&self.plan, (rows, cols), inputs)?;
        let before = initial(inputs).map(|c: Dense<C>| c.to_layout(layout));
        let mut c = before.unwrap_or_else(|| Dense::filled(rows, cols, layout, C::POISON));
        let (mut sim, wide) = (self.machine(options), apart(&c));
        let placed = self.dense_c(&mut sim, &wide);
        let structure = sparse.structure;
        let spare = if self.lists.is_some() { SPARE } else { 0 };
        // Without stored blocks nothing is read.
        let unread = (structure.nnzb() == 0).then_some(placed.ptr);
        let values = unread.unwrap_or_else(|| {
            let mut values = sparse.memory.placed().1;
            // Places that no block has hold what no block holds.
            values.extend(vec![0xFF; values.len() / structure.nnzb() * spare]);
            sim.bytes(values)
        });
        let product = Product {
            sparse: Blocks { structure, values, spare },
            dense: self.factor(&mut sim, dense, unread),
            c: placed,
            inputs: &self.further(&mut sim, inputs),
            second: self.second(&mut sim, rows),
        };
        let list = |sim: &mut Sim<'_>| {
            let (grid, lists) = self.list(sim, structure, shapes.along)?;
            if spec.pdl == Pdl::Early {
                // No earlier kernel writes the sparse operand and the lists that are made of it.
                let settled = [lists.heads, lists.tiles, lists.columns, lists.blocks, Some(values)];
                settled.into_iter().flatten().for_each(|id| sim.memory.settle(id));
            }
            Ok((grid, lists))
        };
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { operation::launch(&mut sim, &self.plan, &product, list)? };
        if !product.is_empty() {
            self.records.keep(sim.records());
            copy_lines(&mut c, wide.ld(), &C::from_bytes(sim.memory.bytes(placed.ptr)));
            writers_of(&mut sim.report, placed.ptr, [&wide, &c].map(|c| c.ld() * size_of::<C>()));
        }
        Ok((Results { c, rows: rows_of(&sim, product.second) }, sim.report))
    }
}
