//! The work of a product of two block-sparse matrices: the slices of each block of C, with the pairs that it sums.

use bsr_codegen::{Plan, TileScheduler};

use super::split_rows::RowTile;
use super::tile::WorkTile;
use super::{BlockIndex, Role, WorkLists, WorkPlan, shared_pairs, waves};
use crate::bsr::Pairs;

impl WorkLists {
    /// Lists the work of a kernel on pairs of blocks, for at most `clusters` clusters at a time.
    pub(crate) fn of_pairs(plan: &Plan, pairs: &Pairs, clusters: u32) -> Self {
        if let TileScheduler::SharedPairs(form) = plan.tile_scheduler() {
            return shared_pairs::lists(plan, &form, pairs, clusters);
        }
        let index = pairs.index();
        let rows = tiles(plan, pairs, clusters);
        let work = match plan.split_form() {
            Some(_) => WorkPlan::of_rows(plan, index, rows, (pairs.width(), clusters), |form, tile| {
                RowTile::of_blocks(plan, form, tile)
            }),
            None => WorkPlan::of_lists(waves::assign(plan, rows, clusters)),
        };
        let heads = work.heads(BlockIndex::from(index));
        let workspace = work.workspace(plan);
        Self { grid: [work.clusters(), 1], heads, tiles: work.words(), workspace, ..Self::default() }
    }
}

/// The places of tiles of `high` block rows and `wide` block columns of C, by their first block row and column, in the order in
/// which they are computed: along rows under some columns at a time, down under the first ones, up under the next.
#[doc(hidden)]
pub fn places(pairs: &Pairs, (high, wide): (usize, usize), clusters: u32) -> Vec<(usize, usize)> {
    let (rows, columns) = pairs.blocks_of_c();
    let (rows, columns) = (rows.div_ceil(high), columns.div_ceil(wide));
    let group = columns_of_wave(pairs.stored(), (rows, columns), clusters);
    let mut places = Vec::with_capacity(rows * columns);
    for (number, first) in (0..columns).step_by(group).enumerate() {
        for row in 0..rows {
            let row = if number % 2 == 0 { row } else { rows - 1 - row };
            places.extend((first..(first + group).min(columns)).map(|column| (row * high, column * wide)));
        }
    }
    places
}

/// Columns of tiles that are computed together, so that the tiles of all clusters at a time read as few bytes of A and B as
/// they can: with r rows and c columns of them, r * c = clusters, r rows of A and c columns of B. `stored` are the elements of A
/// and of B.
pub(crate) fn columns_of_wave(stored: [usize; 2], (rows, columns): (usize, usize), clusters: u32) -> usize {
    let [of_row, of_column] =
        [(stored[0], rows), (stored[1], columns)].map(|(stored, tiles)| (stored as f64 / tiles.max(1) as f64).max(1.0));
    let best = (f64::from(clusters) * of_row / of_column).sqrt().clamp(1.0, columns.max(1) as f64);
    // As many groups as are nearest to that, of equal widths.
    let groups = (columns as f64 / best).round().max(1.0) as usize;
    columns.div_ceil(groups).max(1)
}

/// The tiles with their costs, in the order in which they are computed.
fn tiles(plan: &Plan, pairs: &Pairs, clusters: u32) -> Vec<(WorkTile, u64)> {
    let mut tiles = vec![];
    for (row, column) in places(pairs, (1, 1), clusters) {
        if let Some(block) = pairs.number(row, column) {
            add_slices(&mut tiles, plan, pairs, block);
        }
    }
    tiles
}

/// Adds the slices of a block of C that have rows.
fn add_slices(tiles: &mut Vec<(WorkTile, u64)>, plan: &Plan, pairs: &Pairs, block: usize) {
    let form = plan.cluster_tile();
    let ((row, column), listed) = (pairs.place(block), pairs.index().blocks_of(block));
    let (first, blocks) = (listed.start as u32, listed.len() as u32);
    let slices = (0..form.block_rows).step_by(form.rows as usize);
    tiles.extend(slices.filter(|slice| row + (*slice as usize) < pairs.rows()).map(|slice| {
        let (c_row, a_row) = (row as u32 + slice, first * form.block_rows + slice);
        let tile = WorkTile { c_row, c_col: column as u32, a_row, blocks, role: Role::Whole };
        (tile, form.cost(blocks.into()))
    }));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;
    use crate::{Pattern, Structure};

    fn factors() -> [Structure; 2] {
        [
            Pattern::Random(0.5).structure(600, 320, (256, 64), 1).unwrap(),
            Pattern::Random(0.5).structure(320, 200, (64, 32), 2).unwrap(),
        ]
    }

    #[test]
    fn every_element_of_a_dense_c_is_in_one_tile() {
        let plan = Plan::new(&"bm = 256, bn = 32, bk = 64, op = dss".parse().unwrap()).unwrap();
        let (rows, [a, b]) = (plan.cluster_tile().rows as usize, factors());
        let pairs = Pairs::new(&a, &b, None).unwrap();
        let tiles: Vec<_> = tiles(&plan, &pairs, 3).into_iter().map(|(tile, _)| tile).collect();
        let found: BTreeSet<_> = tiles.iter().map(|tile| (tile.c_row as usize, tile.c_col as usize)).collect();
        let wanted = (0..600).step_by(rows).flat_map(|row| (0..200).step_by(32).map(move |column| (row, column)));
        assert_eq!((found, tiles.len()), (wanted.collect(), 600_usize.div_ceil(rows) * 7));
        for tile in tiles {
            let (row, column) = (tile.c_row as usize / 256, tile.c_col as i32 / 32);
            let of_a = a.blocks_of(row).filter(|at| {
                let k = a.col_idx()[*at] as usize;
                b.col_idx()[b.blocks_of(k)].contains(&column)
            });
            let first = tile.a_row as usize / 256;
            let listed = &pairs.a_blocks()[first..first + tile.blocks as usize];
            assert_eq!(listed.iter().map(|block| *block as usize).collect::<Vec<_>>(), of_a.collect::<Vec<_>>());
            assert_eq!(tile.a_row % 256, tile.c_row % 256);
        }
    }

    #[test]
    fn a_sparse_c_has_its_blocks_one_below_another() {
        let plan = Plan::new(&"bm = 256, bn = 32, bk = 64, op = sss".parse().unwrap()).unwrap();
        let [a, b] = factors();
        let c = Pattern::Random(0.3).structure(600, 200, (256, 32), 3).unwrap();
        let pairs = Pairs::new(&a, &b, Some(&c)).unwrap();
        let tiles = tiles(&plan, &pairs, 3);
        let rows: BTreeSet<_> = tiles.iter().map(|(tile, _)| tile.c_row).collect();
        let wanted = (0..c.nnzb() as u32 * 256).step_by(plan.cluster_tile().rows as usize);
        assert_eq!((rows, tiles.iter().map(|(tile, _)| tile.c_col).max()), (wanted.collect(), Some(0)));
    }

    #[test]
    fn divided_tiles_have_all_pairs() {
        let plan = Plan::new(&"bm = 256, bn = 32, bk = 64, op = dss, split = 3".parse().unwrap()).unwrap();
        let [a, b] = factors();
        let pairs = Pairs::new(&a, &b, None).unwrap();
        let whole = tiles(&plan, &pairs, 3).iter().map(|(tile, _)| u64::from(tile.blocks)).sum::<u64>();
        let lists = WorkLists::of_pairs(&plan, &pairs, 64);
        let parts = lists.tiles.chunks(8).map(|words| u64::from(words[3])).sum::<u64>();
        assert_eq!(parts, whole);
    }
}
