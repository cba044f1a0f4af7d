//! Launches of SDDMMs: A and B dense, the result in the blocks of a pattern.

use bsr_codegen::epilogue::Program;
use bsr_codegen::{Op, Scale};

use super::{Launcher, check_overlap_of, listed};
use crate::gpu::{DeviceInput, StreamRef, UntypedBsr};
use crate::kernel::arguments::{UntypedCall, UntypedResults};
use crate::kernel::inputs::{self, program_of};
use crate::kernel::matrix::UntypedMatrix;
use crate::kernel::{KernelError, fit, place, sddmm};
use crate::operation::Sddmm;

/// The operands of an SDDMM in device memory.
type DeviceSddmm<'a> = Sddmm<'a, UntypedBsr<'a>>;

/// What a launch is given.
///
/// # Errors
/// [`KernelError::Factors`] where not both factors are dense and the result is sparse.
pub(super) fn operands<'a>(
    call: &'a UntypedCall<'a>,
    results: UntypedResults<'a>,
) -> Result<DeviceSddmm<'a>, KernelError> {
    match (call.a, call.b, results.c) {
        (UntypedMatrix::Dense(a), UntypedMatrix::Dense(b), UntypedMatrix::Sparse(c)) => {
            Ok(Sddmm { a, b, c, inputs: &call.inputs, second: results.second })
        }
        _ => Err(KernelError::Factors { expected: Op::Sdd }),
    }
}

impl Launcher {
    pub(super) fn enqueue_sddmm(&self, stream: StreamRef<'_>, operands: &DeviceSddmm<'_>) -> Result<(), KernelError> {
        self.check_sddmm(operands)?;
        // SAFETY: the kernel is the plan's, and the check above has found the operands to fit it; C and the second result are
        // what the caller borrowed mutably for this launch.
        unsafe { self.launch_on(stream, operands, &operands.c, operands.a.cols) }
    }

    /// Whether the operands fit the kernel and each other.
    fn check_sddmm(&self, operands: &DeviceSddmm<'_>) -> Result<(), KernelError> {
        let Sddmm { a, b, c, inputs, second } = *operands;
        place::check(self.device.info().ordinal, [("A", a.on), ("B", b.on), ("C", Some(c.on))])?;
        if let Some(pattern) = c.pattern {
            listed::check(&self.plan, pattern)?;
        }
        sddmm::operands(&self.plan, &fit::Operand::from(&a), &fit::Operand::from(&b), (c.dtype, c.structure))?;
        sddmm::scales(&self.plan, inputs.scales.map_or(Scale::Unscaled, |scales| scales.kind))?;
        let given = |name: &str| inputs.given(name, Some(c.fingerprint));
        let shape = (c.structure.rows(), c.structure.cols());
        inputs::check(&self.plan, shape, given, inputs.names(), second.map(|second| second.len))?;
        inputs::check_order(&self.plan, shape.0, inputs.order.map(|order| order.len))?;
        let results = [Some(("C", c.values)), second.map(|second| ("the second result", second.range()))];
        for (result, range) in results.into_iter().flatten() {
            check_overlap_of(result, "A", range, a.range())?;
            check_overlap_of(result, "B", range, b.range())?;
            for input in program_of(&self.plan).map_or(&[][..], Program::inputs) {
                let other = match inputs.get(&input.name) {
                    Some(DeviceInput::Vector(vector)) => vector.range(),
                    // Blocks of C itself are read before they are written.
                    Some(DeviceInput::Blocks { values, .. }) if result != "C" || values.0 != c.values.0 => values,
                    _ => continue,
                };
                check_overlap_of(result, &input.name, range, other)?;
            }
        }
        match second {
            Some(second) => check_overlap_of("the second result", "C", second.range(), c.values),
            None => Ok(()),
        }
    }
}
