//! Patterns, and the requests of kernels on them.

use bsr_codegen::lists::{Shape, SharedLists, SplitLists};
use bsr_codegen::{Plan, TileScheduler};
use bsr_runtime::schedule::BlockIndex;
pub(crate) use bsr_runtime::simulated::lists::request;
use bsr_runtime::{Pattern, Structure};

pub(crate) fn plan(spec: &str) -> Plan {
    Plan::new(&spec.parse().unwrap()).unwrap()
}

/// The launch for a plan on a pattern.
pub(crate) fn shape(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> Shape {
    Shape::new(&request(plan, structure, n, clusters)).unwrap()
}

/// The launches for a plan whose tiles have several block rows.
pub(crate) fn shared(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> Option<SharedLists> {
    let TileScheduler::SharedColumns(shared) = plan.tile_scheduler() else { return None };
    let request = request(plan, structure, n, clusters);
    Some(SharedLists::new(shared, &request, plan.spec().bk as usize).unwrap())
}

/// The launches for a plan that divides every tile.
pub(crate) fn split(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> Option<SplitLists> {
    let request = request(plan, structure, n, clusters);
    SplitLists::parts(plan.spec().split, &request).map(|parts| SplitLists::new(&request, parts).unwrap())
}

/// First block and number of blocks of every block row, as the kernels of a plan read the pattern.
pub(crate) fn rows(plan: &Plan, structure: &Structure) -> Vec<(u32, u32)> {
    let index = BlockIndex::new(plan, structure);
    index.row_ptr.windows(2).map(|ends| (ends[0] as u32, (ends[1] - ends[0]) as u32)).collect()
}

/// A pattern by its word, or with one long row among short ones.
pub(crate) fn structure(plan: &Plan, (rows, cols): (usize, usize), pattern: &str, seed: u64) -> Structure {
    let block = (plan.spec().bm as usize, plan.spec().bk as usize);
    if pattern != "one long row" {
        return pattern.parse::<Pattern>().unwrap().structure(rows, cols, block, seed).unwrap();
    }
    let (mut row_ptr, mut col_idx) = (vec![0], vec![]);
    for row in 0..rows.div_ceil(block.0) {
        let all = cols.div_ceil(block.1);
        let length = if row == 17 { all } else { (10 + row % 3).min(all) };
        col_idx.extend(0..length as i32);
        row_ptr.push(col_idx.len() as i32);
    }
    Structure::new(rows, cols, block, row_ptr, col_idx).unwrap()
}
