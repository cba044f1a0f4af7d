//! Launches with an epilogue's further operands.

use bsr_codegen::Operand;
use bsr_codegen::epilogue::Program;

use super::{Launcher, Operands, check_overlap_of};
use crate::gpu::{DeviceInput, DevicePtr, StreamRef, UntypedVector};
use crate::kernel::inputs::{self, program_of};
use crate::kernel::{KernelError, fit};

impl Launcher {
    /// Elements from one line to the next of the full operand that the epilogue reads, where it reads one.
    pub(super) fn tile_line(&self, operands: &Operands<'_>) -> u64 {
        let tile = || {
            let program = program_of(&self.plan)?;
            let (at, _) = program.tile()?;
            match operands.inputs.get(&program.inputs()[at].name)? {
                DeviceInput::Matrix(matrix) => Some(matrix.ld),
                _ => None,
            }
        };
        tile().unwrap_or(operands.c.ld) as u64
    }

    /// What the epilogue's parameter number `at` is given.
    pub(super) fn given(&self, operands: &Operands<'_>, at: usize) -> Option<DeviceInput> {
        operands.inputs.get(&program_of(&self.plan)?.inputs().get(at)?.name)
    }

    /// Where an operand of a launch lies.
    pub(super) fn address(&self, operands: &Operands<'_>, operand: Operand) -> DevicePtr {
        let c = operands.c.ptr;
        match operand {
            Operand::Epilogue(at) => match self.given(operands, at) {
                Some(DeviceInput::Vector(vector)) => vector.ptr,
                Some(DeviceInput::Matrix(matrix)) => matrix.ptr,
                // Only an SDDMM has blocks.
                Some(DeviceInput::Blocks { .. } | DeviceInput::Result | DeviceInput::Scalar(_)) | None => c,
            },
            Operand::Second => operands.second.map_or(c, |second| second.ptr),
            Operand::Order => operands.inputs.order.map_or(c, |order| order.ptr),
            operand => operands.address(self.plan.spec().op, operand),
        }
    }

    /// Sets the second result to what its collecting begins with.
    pub(super) fn start_second(&self, stream: StreamRef<'_>, second: Option<UntypedVector>) -> Result<(), KernelError> {
        let reduction = program_of(&self.plan).and_then(Program::reduction);
        if let (Some(reduction), Some(second)) = (reduction, second) {
            // SAFETY: the caller borrowed the vector mutably for this launch.
            unsafe { second.fill_on(&self.device, reduction.start(), stream)? };
        }
        Ok(())
    }

    /// Inputs must be what the epilogue asks for, and none may lie where results are written, but for a full operand
    /// that is C itself: a tile of it is read before the same tile is written.
    pub(super) fn check_inputs(&self, operands: &Operands<'_>) -> Result<(), KernelError> {
        let Operands { sparse, dense, c, inputs, second } = *operands;
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
