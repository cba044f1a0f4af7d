//! The producers' loads: one warp loads slabs, another one blocks.

use serde::Serialize;

use super::super::plan::SwapAbPlan;
use crate::Layout;
use crate::plan::Major;

/// Records that are on their way: one is used while the next is loaded.
const AHEAD: u32 = 2;

/// The producer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Producer {
    /// Numbers of the records on their way.
    records: Vec<u32>,
    by_block: bool,
    chunks: u32,
    /// Boxes of a slab.
    slab: Vec<Load>,
    /// Boxes of a block.
    block: Vec<Load>,
}

/// One TMA load.
#[derive(Clone, Debug, Serialize)]
struct Load {
    setup: Vec<String>,
    destination: String,
    rank: &'static str,
    coordinates: String,
}

impl Producer {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        Self {
            records: (0..AHEAD).collect(),
            by_block: plan.k_slice.by_block,
            chunks: plan.k_slice.count,
            slab: (0..plan.dense.panels).map(|panel| slab(plan, panel)).collect(),
            block: (0..plan.sparse.panels).map(|panel| block(plan, panel)).collect(),
        }
    }
}

/// Panel `panel` of a slab. `%r_at` is the first row of K, or the block column where maps are by block; `%r_k` the
/// chunk's place in the block.
fn slab(plan: &SwapAbPlan, panel: u32) -> Load {
    let tile = &plan.dense;
    let mut setup = vec![];
    let destination = offset("%r_box_at", panel * tile.panel_bytes(), "%r_panel_at", &mut setup);
    let along = panel * tile.span_elements();
    let (rank, coordinates) = match (plan.view.dense, plan.k_slice.by_block) {
        (Layout::RowMajor, by_block) => {
            let n = offset("%r_col", along, "%r_inner", &mut setup);
            match by_block {
                false => ("2d", format!("{n}, %r_at")),
                true => ("3d", format!("{n}, %r_k, %r_at")),
            }
        }
        (Layout::ColMajor, false) => {
            let k = offset("%r_at", along, "%r_inner", &mut setup);
            ("2d", format!("{k}, %r_col"))
        }
        (Layout::ColMajor, true) => {
            let k = offset("%r_k", along, "%r_inner", &mut setup);
            ("3d", format!("{k}, %r_at, %r_col"))
        }
    };
    Load { setup, destination, rank, coordinates }
}

/// Panel `panel` of a block. `%r_at` is the block's number; of its rows and its K, where one of them has several parts,
/// `%r_slice` and `%r_k` are the first.
fn block(plan: &SwapAbPlan, panel: u32) -> Load {
    let tile = &plan.sparse;
    let mut setup = vec![];
    let destination = offset("%r_box_at", panel * tile.panel_bytes(), "%r_panel_at", &mut setup);
    let along = panel * tile.span_elements();
    let k = if plan.k_slice.count > 1 { "%r_k" } else { "0" };
    let row = if plan.tile.slices > 1 { "%r_slice" } else { "0" };
    let coordinates = match plan.view.sparse {
        Major::K => format!("{}, {row}, %r_at", part(k, along, &mut setup)),
        Major::Mn => format!("{}, {k}, %r_at", part(row, along, &mut setup)),
    };
    Load { setup, destination, rank: "3d", coordinates }
}

/// As [`offset`], of a coordinate that may be 0.
fn part(base: &str, by: u32, setup: &mut Vec<String>) -> String {
    match base {
        "0" => by.to_string(),
        _ => offset(base, by, "%r_inner", setup),
    }
}

/// The register that holds `base` + `by`, and the addition that makes it.
fn offset(base: &str, by: u32, target: &str, setup: &mut Vec<String>) -> String {
    if by == 0 {
        return base.to_owned();
    }
    setup.push(format!("add.u32 {target}, {base}, {by}"));
    target.to_owned()
}
