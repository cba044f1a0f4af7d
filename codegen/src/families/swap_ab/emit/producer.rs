//! The producers' loads: one warp loads B panels, another one blocks.

use serde::Serialize;

use super::super::plan::SwapAbPlan;
use crate::Layout;
use crate::hopper::tma::{Offset, offset};
use crate::plan::Major;

/// Sets of metadata that are on their way: one is used while the next is loaded.
const AHEAD: u32 = 2;

/// The producer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Producer {
    /// Numbers of the sets of metadata on their way.
    metadata_sets: Vec<u32>,
    /// The map of B panels.
    b_panel_map: &'static str,
    /// Boxes of a B panel.
    b_panel: Vec<Load>,
    /// Boxes of a block.
    block: Vec<Load>,
}

/// One TMA load.
#[derive(Clone, Debug, Serialize)]
struct Load {
    adds: Vec<Offset>,
    to: String,
    rank: &'static str,
    coordinates: String,
}

impl Producer {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        Self {
            metadata_sets: (0..AHEAD).collect(),
            b_panel_map: if plan.k_slice.by_block { "%rd_map_b_panel" } else { "%rd_map_dense" },
            b_panel: (0..plan.dense.panels).map(|box_at| b_panel(plan, box_at)).collect(),
            block: (0..plan.sparse.panels).map(|box_at| block(plan, box_at)).collect(),
        }
    }
}

/// Box `number` of a B panel. `%r_at` is the first row of K, or the block column where maps are by block; `%r_k` the
/// K slice's place in the block.
fn b_panel(plan: &SwapAbPlan, number: u32) -> Load {
    let (tile, by_block) = (&plan.dense, plan.k_slice.by_block);
    let mut adds = vec![];
    let to = offset("%r_box_at", number * tile.panel_bytes(), "%r_panel_at", &mut adds);
    let mut inner = |base| offset(base, number * tile.span_elements(), "%r_inner", &mut adds);
    let (rank, coordinates) = match (plan.view.dense, by_block) {
        (Layout::RowMajor, false) => ("2d", format!("{}, %r_at", inner("%r_col"))),
        (Layout::RowMajor, true) => ("3d", format!("{}, %r_k, %r_at", inner("%r_col"))),
        (Layout::ColMajor, false) => ("2d", format!("{}, %r_col", inner("%r_at"))),
        (Layout::ColMajor, true) => ("3d", format!("{}, %r_at, %r_col", inner("%r_k"))),
    };
    Load { adds, to, rank, coordinates }
}

/// Box `number` of a block. `%r_at` is the block's number; of its rows and its K, where one of them has several parts,
/// `%r_slice` and `%r_k` are the first.
fn block(plan: &SwapAbPlan, number: u32) -> Load {
    let tile = &plan.sparse;
    let mut adds = vec![];
    let to = offset("%r_box_at", number * tile.panel_bytes(), "%r_panel_at", &mut adds);
    let along = number * tile.span_elements();
    let k = (plan.k_slice.count > 1).then_some("%r_k");
    let row = (plan.tile.slices > 1).then_some("%r_slice");
    let (inner, outer) = if plan.view.sparse == Major::K { (k, row) } else { (row, k) };
    let inner = inner.map_or(along.to_string(), |base| offset(base, along, "%r_inner", &mut adds));
    Load { adds, to, rank: "3d", coordinates: format!("{inner}, {}, %r_at", outer.unwrap_or("0")) }
}
