//! The recipe of a plan, one step a file.

mod fused;
mod k_slice;
mod launch;
mod memory;
mod store;
mod tile;
mod types;

pub(crate) use fused::{Along, Fused, HELD_COLUMNS, HELD_ROWS};
pub(crate) use k_slice::KSlice;
pub(crate) use memory::Memory;
pub(crate) use store::Store;
pub(crate) use tile::{GROUP, Tile};

use crate::hopper::OperandTile;
use crate::hopper::wgmma_k;
use crate::plan::{Major, SparseTimesDense};
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec, Layout};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwapAbPlan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) view: SparseTimesDense,
    /// Why the operands are exchanged (swap-AB).
    pub(crate) why: String,
    pub(crate) tile: Tile,
    pub(crate) k_slice: KSlice,
    /// A B panel, `cta_n` columns of a K slice of the dense operand: WGMMA's A.
    pub(crate) dense: OperandTile,
    /// The rows of a block over a K slice: WGMMA's B.
    pub(crate) sparse: OperandTile,
    pub(crate) store: Store,
    /// The spec's epilogue.
    pub(crate) fused: Option<Fused>,
    pub(crate) memory: Memory,
}

impl SwapAbPlan {
    /// Where the barriers of the epilogue's full operand begin, and how many there are: one a staging buffer.
    pub(crate) fn operand_barriers(&self) -> Option<(u32, u32)> {
        let count = self.memory.buffers * self.tile.roles.consumers;
        self.fused.filter(|fused| fused.tile.is_some()).map(|_| (self.memory.tile_offset, count))
    }

    pub(crate) fn new(spec: &KernelSpec, why: String, arch: &Arch) -> Result<Self, PlanErrors> {
        let view = SparseTimesDense::new(spec);
        let mut errors = PlanErrors::default();
        types::check(spec, &view, &mut errors);
        let mut keep = |error| errors.push(error);
        let fused = Fused::new(spec, &view);
        let tile = tile::plan(spec, &view, fused.as_ref(), arch).map_err(&mut keep);
        let k_slice = k_slice::plan(spec, &view).map_err(keep);
        errors.check()?;
        let (Ok(tile), Ok(k_slice)) = (tile, k_slice) else { return Err(PlanErrors::default()) };
        let with = |tile: Tile| Self::with_tile(spec, &why, view, fused, tile, k_slice, arch);
        // As many block rows as there are registers for, unless their blocks leave no room for a ring.
        let packs = (1..tile.pack).rev().filter(|_| spec.pack.is_none());
        let mut best = with(tile);
        for pack in packs {
            if best.as_ref().is_ok_and(|plan| plan.memory.is_deep()) {
                break;
            }
            let fewer = with(Tile { pack, ..tile });
            if fewer.is_ok() {
                best = fewer;
            }
        }
        Ok(best?)
    }

    fn with_tile(
        spec: &KernelSpec,
        why: &str,
        view: SparseTimesDense,
        fused: Option<Fused>,
        tile: Tile,
        k_slice: KSlice,
        arch: &Arch,
    ) -> Result<Self, PlanError> {
        let dense_major = if view.dense == Layout::RowMajor { Major::Mn } else { Major::K };
        let dense = operand(dense_major, view.dense_type.bytes(), tile.cta_n, &k_slice);
        let sparse = operand(view.sparse, view.sparse_type.bytes(), tile.rows, &k_slice);
        let store = store::plan(spec, &view, &tile);
        let has_tile = fused.is_some_and(|fused| fused.tile.is_some());
        let memory = memory::plan(spec, &view, &tile, &k_slice, (&dense, &sparse), (&store, has_tile), arch)?;
        let (spec, arch, why) = (*spec, *arch, why.to_owned());
        Ok(Self { spec, arch, view, why, tile, k_slice, dense, sparse, store, fused, memory })
    }

    /// Elements of K that one WGMMA consumes.
    pub(crate) fn unit(&self) -> u32 {
        wgmma_k(self.view.sparse_type)
    }
}

/// `mn` rows or columns of an operand over a K slice, in panels as wide as a swizzle span.
fn operand(major: Major, element: u32, mn: u32, k_slice: &KSlice) -> OperandTile {
    let (along, rows) = match major {
        Major::K => (k_slice.held, mn),
        Major::Mn => (mn, k_slice.held),
    };
    let span = (along * element).next_power_of_two().clamp(32, 128);
    let panels = (along * element).div_ceil(span);
    OperandTile {
        major,
        element,
        span,
        rows,
        panels,
        box_rows: rows,
        rows_per_line: 1,
        loads: (panels, 1),
        by_block: k_slice.by_block,
    }
}
