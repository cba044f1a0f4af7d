//! Step 4b: the spec's epilogue: what it needs beside the accumulators.

use super::tiling::Tiling;
use crate::epilogue::Program;
use crate::hopper::fused_plan as fused;
use crate::plan::PlanErrors;
use crate::{Dtype, KernelSpec};

/// Rows of which a thread has elements.
pub(crate) const ROWS: u32 = 2;

/// The epilogue of a kernel. Its rows and columns are those of the stored matrix: of C^T under `transpose = on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fused {
    pub(crate) program: &'static Program,
    /// The full operand, values of blocks: its number among the parameters, and its type. It is read part by part from
    /// where C is staged.
    pub(crate) tile: Option<(usize, Dtype)>,
}

impl Fused {
    pub(crate) fn new(spec: &KernelSpec, tiling: &Tiling, errors: &mut PlanErrors) -> Option<Self> {
        let program = spec.epilogue?.program();
        fused::check(spec, program, errors);
        let (accumulators, registers) = (tiling.accumulators(), tiling.roles.consumer_registers);
        fused::check_registers(spec, program, ROWS, (accumulators, registers), 8, errors);
        Some(Self { program, tile: program.tile() })
    }
}
