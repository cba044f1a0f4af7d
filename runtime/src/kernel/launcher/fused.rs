//! Launches with an epilogue's further operands.

use bsr_codegen::epilogue::Program;

use super::{DeviceProduct, Launcher, check_overlap_of};
use crate::gpu::DeviceInput;
use crate::kernel::inputs::{self, program_of};
use crate::kernel::{KernelError, fit};

impl Launcher {
    /// Inputs must be what the epilogue asks for, and none may lie where results are written, but for a full operand
    /// that is C itself: a tile of it is read before the same tile is written.
    pub(super) fn check_inputs(&self, operands: &DeviceProduct<'_, '_>) -> Result<(), KernelError> {
        let DeviceProduct { sparse, dense, c, inputs, second } = *operands;
        let given = |name: &str| inputs.given(name, None);
        inputs::check(&self.plan, (c.rows, c.cols), given, inputs.names(), second.map(|second| second.len))?;
        inputs::check_order(&self.plan, c.rows, inputs.order.map(|order| order.len))?;
        if let Some(order) = inputs.order {
            check_overlap_of("C", "the order of rows", c.range(), order.range())?;
        }
        let results = [Some(("C", c.range())), second.map(|second| ("the second result", second.range()))];
        for input in program_of(&self.plan).map_or(&[][..], Program::inputs) {
            let range = match inputs.get(&input.name) {
                Some(DeviceInput::Vector(vector)) => vector.range(),
                Some(DeviceInput::Matrix(matrix)) => matrix.range(),
                _ => continue,
            };
            for (name, result) in results.into_iter().flatten() {
                let is_c = matches!(inputs.get(&input.name), Some(DeviceInput::Matrix(matrix))
                    if name == "C" && (matrix.ptr, matrix.ld) == (c.ptr, c.ld));
                if !is_c {
                    check_overlap_of(name, &input.name, result, range)?;
                }
            }
        }
        if let Some(second) = second {
            let (sparse_name, dense_name) = fit::names(self.plan.spec());
            let ranges = [
                ("C", c.range()),
                (dense_name, dense.range()),
                (sparse_name, sparse.values),
                ("the block columns", sparse.index),
            ];
            for (name, range) in ranges {
                check_overlap_of("the second result", name, second.range(), range)?;
            }
        }
        Ok(())
    }
}
