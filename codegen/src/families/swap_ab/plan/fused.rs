//! Step 4b: the spec's epilogue, said of the fragments: their rows are dense columns, their columns rows of the sparse
//! operand's blocks.

use serde::Serialize;

use crate::epilogue::{Lines, Program, Reduction};
use crate::hopper::fused_plan as fused;
use crate::plan::PlanErrors;
use crate::plan::SparseTimesDense;
use crate::{Dtype, KernelSpec};

/// Rows of fragments that values are held of at a time: those of 64 dense columns.
pub(crate) const HELD_ROWS: u32 = 2;
/// Columns of fragments that values are held of at a time.
pub(crate) const HELD_COLUMNS: u32 = 2;
/// Registers for values of rows that a tile has beside its accumulators without giving up any.
const SPARE: u32 = 4;

/// The epilogue of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fused {
    /// Turned round once more than the view is.
    pub(crate) program: &'static Program,
    /// The full operand: its number among the parameters, and its type. It is read from where C is staged.
    pub(crate) tile: Option<(usize, Dtype)>,
    /// How a second result is collected, and along what.
    pub(crate) second: Option<(Reduction, Along)>,
}

/// The dimension of the fragments along which a row of C runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Along {
    /// The rows of fragments: every warp has a part of a row of C.
    Rows,
    /// Their columns: C is transposed, and a thread meets a row of C in all of its block rows.
    Columns,
}

impl Fused {
    pub(crate) fn new(spec: &KernelSpec, view: &SparseTimesDense) -> Option<Self> {
        let epilogue = spec.epilogue?;
        let (program, along) = match view.transposed {
            false => (epilogue.transposed(), Along::Rows),
            true => (epilogue.program(), Along::Columns),
        };
        let second = program.reduction().map(|reduction| (reduction, along));
        Some(Self { program, tile: program.tile(), second })
    }

    /// Registers that it takes from the accumulators.
    pub(crate) fn registers(&self) -> u32 {
        let held = Lines::row_registers(self.program, HELD_ROWS);
        match self.second {
            // Totals are held from a group's first epilogue subtile to its last, and ptxas 13.0 spilled beside the widest tiles.
            Some((_, Along::Columns)) => held,
            // Each eight rows of C have totals of their own.
            Some((_, Along::Rows)) => held.saturating_sub(HELD_ROWS + SPARE),
            None => held.saturating_sub(SPARE),
        }
    }
}

/// Refuses what cannot be planned.
pub(crate) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    if let Some(epilogue) = spec.epilogue {
        fused::check(spec, epilogue.program(), errors);
    }
}
