//! How many columns of tiles are computed together along a row of tiles: what concurrent tiles then share in L2.
//!
//! The CTAs of a row of tiles read the same blocks of A at the same time, those of a column of tiles the same rows of B. Measured on
//! an H100 and an H200 (`benches/LOG.md`, 58): where the rows that are computed at the same time have few block columns, and
//! the next ones mostly the same, as in a window around the diagonal, whole rows of C are fastest. Otherwise a group should
//! take a certain number of bytes of B: a narrower one has few CTAs that share A, and a wider one more of B than L2 holds.

use bsr_codegen::{Plan, TileScheduler};

use super::BlockIndex;

/// Bytes of B that concurrent tiles may share in L2. An H200 has 60 MB of L2 and an H100 50, in two halves, each with its own
/// copy of what both read.
const PANEL_BYTES: usize = 17 << 20;
/// Bytes of A beyond which it does not stay in L2 from one group of columns to the next.
const A_BYTES: usize = 17 << 20;
/// The least bytes of B that a group takes, where A does not stay in L2 and where it does.
const GROUP_BYTES: [usize; 2] = [9_000_000, 4_500_000];
/// Rows follow each other closely where the block columns that are new to each step, over all steps, are at most so many times
/// all that are stored in any row.
const REPEATED: f64 = 1.25;

/// Columns of tiles that are computed together by at most so many clusters, of C with `n` columns; `index` is that of the sparse
/// operand as the kernel reads it.
pub fn columns_together(plan: &Plan, index: &BlockIndex<'_>, n: usize, clusters: usize) -> usize {
    let all = columns_of(plan, n);
    let group = group_of_columns(plan, index.col_idx.len() * index.block.0 * index.block.1, index.cols, n);
    if holds_all(plan, index.cols, n) {
        return group;
    }
    let tile_rows = clusters.max(1).div_ceil(all);
    let rows = (tile_rows as f64 * block_rows_of_tile(plan)).ceil().max(1.0) as usize;
    let panel = index.block.1 * n * plan.spec().b.bytes() as usize;
    let fits = |columns: f64| columns * panel as f64 <= PANEL_BYTES as f64;
    if follow_closely(index, rows, fits) { all } else { group }
}

/// The same where only the number of stored elements of the sparse operand and its columns are known. One where L2 holds all that is
/// read in any order.
pub fn group_of_columns(plan: &Plan, stored: usize, cols: usize, n: usize) -> usize {
    let stays = stored * plan.spec().a.bytes() as usize <= A_BYTES;
    match stays && holds_all(plan, cols, n) {
        true => 1,
        false => GROUP_BYTES[usize::from(stays)].div_ceil(column_bytes(plan, cols)).clamp(1, columns_of(plan, n)),
    }
}

/// Columns of tiles of C.
fn columns_of(plan: &Plan, n: usize) -> usize {
    n.div_ceil(plan.cluster_tile().columns as usize).max(1)
}

/// Whether all of B takes no more than a group does.
fn holds_all(plan: &Plan, cols: usize, n: usize) -> bool {
    column_bytes(plan, cols) * columns_of(plan, n) <= GROUP_BYTES[1]
}

/// Columns of tiles of which L2 holds what concurrent tiles read of B, where a sparse operand has so many columns.
pub fn columns_held(plan: &Plan, cols: usize) -> f64 {
    PANEL_BYTES as f64 / column_bytes(plan, cols) as f64
}

/// Bytes of B under one column of tiles.
fn column_bytes(plan: &Plan, cols: usize) -> usize {
    (cols * (plan.cluster_tile().columns * plan.spec().b.bytes()) as usize).max(1)
}

/// Block rows of the sparse operand that a cluster's tile has, or the part of one.
fn block_rows_of_tile(plan: &Plan) -> f64 {
    match plan.tile_scheduler() {
        TileScheduler::SharedColumns(form) => f64::from(form.pack),
        TileScheduler::StageMetadata(packing) => f64::from(packing.pack),
        TileScheduler::SharedPairs(form) => f64::from(form.rows),
        _ => f64::from(plan.cluster_tile().rows) / f64::from(plan.cluster_tile().block_rows.max(1)),
    }
}

/// Whether steps of `rows` block rows each have, on average, few enough block columns to fit, most of which the step before had.
fn follow_closely(index: &BlockIndex<'_>, rows: usize, fits: impl Fn(f64) -> bool) -> bool {
    let columns = index.cols.div_ceil(index.block.1.max(1));
    // The last step that had each block column, from 1 on; 0 is none.
    let mut last = vec![0_u32; columns];
    let (mut read, mut fresh, mut ever) = (0_usize, 0_usize, 0_usize);
    let mut steps = 0;
    for ends in index.row_ptr.windows(2).collect::<Vec<_>>().chunks(rows) {
        steps += 1;
        let (first, end) = (ends[0][0] as usize, ends[ends.len() - 1][1] as usize);
        for &column in &index.col_idx[first..end] {
            let before = std::mem::replace(&mut last[column as usize], steps);
            read += usize::from(before != steps);
            fresh += usize::from(before != steps && before + 1 != steps || before == 0);
            ever += usize::from(before == 0);
        }
    }
    fits(read as f64 / f64::from(steps.max(1))) && fresh as f64 <= REPEATED * ever as f64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Pattern;

    fn together(spec: &str, (m, n, k): (usize, usize, usize), pattern: &str, clusters: usize) -> usize {
        let plan = Plan::new(&spec.parse().unwrap()).unwrap();
        let block = (plan.spec().bm as usize, plan.spec().bk as usize);
        let structure = pattern.parse::<Pattern>().unwrap().structure(m, k, block, 0).unwrap();
        columns_together(&plan, &BlockIndex::new(&plan, &structure), n, clusters)
    }

    /// As measured on an H100 and an H200.
    #[test]
    fn groups_are_those_that_were_fastest() {
        let flagship = (8192, 8192, 8288);
        for (bn, columns) in [(128, 5), (192, 3), (256, 3)] {
            assert_eq!(together(&format!("bm = 512, bn = {bn}, bk = 112"), flagship, "topk:16", 132), columns);
        }
        let square = (8192, 8192, 8192);
        assert_eq!(together("bm = 128, bn = 256, bk = 128", square, "random:0.25", 132), 3);
        assert_eq!(together("bm = 128, bn = 256, bk = 128, cluster = 2", square, "random:0.25", 66), 2);
        assert_eq!(together("bm = 128, bn = 256, bk = 128", square, "random:0.12", 132), 2);
        assert_eq!(together("bm = 128, bn = 256, bk = 128, cluster = 2", square, "random:0.12", 66), 1);
        let long = (12288, 6144, 12288);
        assert_eq!(together("bm = 128, bn = 128, bk = 128, cluster = 4", long, "powerlaw:0.06", 33), 1);
        assert_eq!(together("bm = 128, bn = 128, bk = 128, cluster = 2", long, "powerlaw:0.06", 66), 2);
    }

    #[test]
    fn a_window_is_computed_along_its_rows() {
        let long = (12288, 6144, 12288);
        assert_eq!(together("bm = 128, bn = 192, bk = 128, cluster = 2", long, "window:0.05", 66), 16);
        assert_eq!(together("bm = 64, bn = 256, bk = 64, swap = off, pack = 2", long, "window:0.05", 132), 24);
        assert_eq!(together("bm = 512, bn = 128, bk = 128", long, "window:0.05", 132), 48);
        // Of a tenth, what concurrent rows read does not fit.
        assert!(together("bm = 128, bn = 256, bk = 128", (32768, 8192, 32768), "window:0.1", 132) < 32);
    }

    #[test]
    fn empty_and_tiny_patterns_have_a_group() {
        assert_eq!(together("bm = 64, bn = 64, bk = 64", (64, 17, 64), "random:0", 132), 1);
        assert_eq!(together("bm = 64, bn = 64, bk = 64", (64, 200, 64), "topk:1", 132), 1);
    }
}
