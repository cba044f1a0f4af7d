//! The recipe of a plan, one step a file.

mod chunk;
mod fused;
mod launch;
mod memory;
mod store;
mod tile;
mod types;

pub(crate) use chunk::Chunk;
pub(crate) use fused::{Along, Fused, HELD_COLUMNS, HELD_ROWS};
pub(crate) use memory::Memory;
pub(crate) use store::Store;
pub(crate) use tile::{GROUP, Tile};

use crate::hopper::OperandTile;
use crate::hopper::wgmma_k;
use crate::plan::{Major, View};
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec, Layout};

/// A legal kernel of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwapAbPlan {
    pub(crate) spec: KernelSpec,
    pub(crate) arch: Arch,
    pub(crate) view: View,
    /// Why operands are swapped.
    pub(crate) why: String,
    pub(crate) tile: Tile,
    pub(crate) chunk: Chunk,
    /// A slab of the dense operand: WGMMA's A.
    pub(crate) dense: OperandTile,
    /// A stored block, or the part of it that a stage holds: WGMMA's B.
    pub(crate) sparse: OperandTile,
    pub(crate) store: Store,
    /// The spec's epilogue.
    pub(crate) fused: Option<Fused>,
    pub(crate) memory: Memory,
}

impl SwapAbPlan {
    pub(crate) fn new(spec: &KernelSpec, why: String, arch: &Arch) -> Result<Self, PlanErrors> {
        let view = View::new(spec);
        let mut errors = PlanErrors::default();
        types::check(spec, &view, &mut errors);
        let mut keep = |error| errors.push(error);
        let fused = Fused::new(spec, &view);
        let tile = tile::plan(spec, &view, fused.as_ref(), arch).map_err(&mut keep);
        let chunk = chunk::plan(spec, &view).map_err(keep);
        errors.check()?;
        let (Ok(tile), Ok(chunk)) = (tile, chunk) else { return Err(PlanErrors::default()) };
        let with = |tile: Tile| Self::with_tile(spec, &why, view, fused, tile, chunk, arch);
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
        view: View,
        fused: Option<Fused>,
        tile: Tile,
        chunk: Chunk,
        arch: &Arch,
    ) -> Result<Self, PlanError> {
        let dense = dense(&view, &tile, &chunk);
        let sparse = sparse(&view, &tile, &chunk);
        let store = store::plan(spec, &view, &tile);
        let has_tile = fused.is_some_and(|fused| fused.tile.is_some());
        let memory = memory::plan(spec, &view, &tile, &chunk, (&dense, &sparse), (&store, has_tile), arch)?;
        Ok(Self {
            spec: *spec,
            arch: *arch,
            view,
            why: why.to_owned(),
            tile,
            chunk,
            dense,
            sparse,
            store,
            fused,
            memory,
        })
    }
}

/// `cta_n` dense columns of a chunk of K.
fn dense(view: &View, tile: &Tile, chunk: &Chunk) -> OperandTile {
    let element = view.dense_type.bytes();
    match view.dense {
        Layout::RowMajor => {
            let span = 128;
            let panels = tile.cta_n / (span / element);
            OperandTile {
                major: Major::Mn,
                element,
                span,
                rows: chunk.held,
                panels,
                box_rows: chunk.held,
                fold: 1,
                loads: (panels, 1),
                by_block: chunk.by_block,
            }
        }
        Layout::ColMajor => along_k(element, tile.cta_n, chunk),
    }
}

/// The rows of a block over a chunk of K.
fn sparse(view: &View, tile: &Tile, chunk: &Chunk) -> OperandTile {
    let element = view.sparse_type.bytes();
    match view.sparse {
        Major::K => along_k(element, tile.rows, chunk),
        Major::Mn => {
            let span = (tile.rows * element).next_power_of_two().clamp(32, 128);
            let panels = (tile.rows * element).div_ceil(span);
            OperandTile {
                major: Major::Mn,
                element,
                span,
                rows: chunk.held,
                panels,
                box_rows: chunk.held,
                fold: 1,
                loads: (panels, 1),
                by_block: chunk.by_block,
            }
        }
    }
}

/// `rows` rows with K inside them.
fn along_k(element: u32, rows: u32, chunk: &Chunk) -> OperandTile {
    let span = (chunk.held * element).next_power_of_two().clamp(32, 128);
    let panels = (chunk.held * element).div_ceil(span);
    OperandTile {
        major: Major::K,
        element,
        span,
        rows,
        panels,
        box_rows: rows,
        fold: 1,
        loads: (panels, 1),
        by_block: chunk.by_block,
    }
}

impl SwapAbPlan {
    /// Elements of K that one WGMMA consumes.
    pub(crate) fn unit(&self) -> u32 {
        wgmma_k(self.view.sparse_type)
    }
}
