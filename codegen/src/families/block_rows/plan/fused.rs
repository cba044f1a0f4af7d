//! Step 6b: the spec's epilogue: when it is applied, and what it needs beside the accumulators.

use super::tiling::Tiling;
use crate::epilogue::{InputKind, Program};
use crate::hopper::CONSUMER_OVERHEAD;
use crate::hopper::fused_plan as fused;
use crate::plan::PlanErrors;
use crate::plan::SparseTimesDense;
use crate::{Dtype, KernelSpec};

/// Registers that elements of row vectors may take while a tile is multiplied.
const EARLY_REGISTERS: u32 = 4;
/// Registers that a packed copy of the last tile leaves alone.
const BESIDE_PACKED: u32 = 32;

/// The epilogue of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fused {
    /// Said of the kernel's tile: where that is of the transposed C, the program is the transposed one.
    pub(crate) program: &'static Program,
    /// The full operand: its number among the parameters, and its type. It is read part by part from where C is
    /// staged, so that the tile is stored at once.
    pub(crate) tile: Option<(usize, Dtype)>,
    /// Elements of vectors by rows are loaded when a tile begins, and not when it ends.
    pub(crate) early_rows: bool,
}

impl Fused {
    pub(crate) fn new(
        spec: &KernelSpec,
        view: &SparseTimesDense,
        tiling: &Tiling,
        errors: &mut PlanErrors,
    ) -> Option<Self> {
        let epilogue = spec.epilogue?;
        let program = if view.transposed { epilogue.transposed() } else { epilogue.program() };
        let tile = program.tile();
        fused::check(spec, program, errors);
        let rows = 2 * tiling.row_groups();
        let vectors = program.inputs().iter().filter(|input| matches!(input.kind, InputKind::Rows(_))).count() as u32;
        let early = vectors * rows;
        let (accumulators, registers) = (tiling.accumulators(spec.acc), tiling.roles.consumer_registers);
        let packed = if tile.is_none() && tiling.fits_with_packed(spec.acc) { tiling.sums() / 2 } else { 0 };
        fused::check_registers(spec, program, rows, (accumulators, registers), 16, errors);
        let early_rows = (1..=EARLY_REGISTERS).contains(&early)
            && accumulators + packed + early + BESIDE_PACKED <= registers
            && accumulators + early + tiling.partials + CONSUMER_OVERHEAD <= registers;
        Some(Self { program, tile, early_rows })
    }
}
