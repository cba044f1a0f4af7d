//! Step 4b: the spec's epilogue: what it needs beside the accumulators.

use super::tiling::Tiling;
use crate::epilogue::{Lines, Program};
use crate::hopper::CONSUMER_OVERHEAD;
use crate::hopper::fused_plan as fused;
use crate::plan::{PlanError, PlanErrors};
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
        let of_rows = Lines::row_registers(program, ROWS);
        let needed = accumulators + of_rows + CONSUMER_OVERHEAD;
        if needed > registers {
            errors.push(PlanError::new(
                "epilogue",
                "the values of the epilogue do not fit the register file",
                format!(
                    "{accumulators} accumulators + {of_rows} values of {ROWS} rows + {CONSUMER_OVERHEAD} for addresses = \
                     {needed} registers a thread; a consumer has {registers}"
                ),
                format!("bn = {}, or fewer vectors", (spec.bn / 2).max(8)),
            ));
        }
        Some(Self { program, tile: program.tile() })
    }
}
