//! The work of products of two sparse factors whose tiles have several blocks of C: the union of their pairs.

use std::collections::BTreeMap;

use bsr_codegen::{Plan, SharedPairs, TileScheduler};

use super::costs::pairs_tile;
use super::pairs::places;
use super::shared_columns::{MOST, SharedTile};
use super::tile::{heads, in_rows};
use super::{Role, WorkLists, waves};
use crate::bsr::Pairs;

/// Lists the work of a kernel whose tiles have several blocks of C, for at most `clusters` CTAs at a time.
pub(super) fn lists(plan: &Plan, form: &SharedPairs, pairs: &Pairs, clusters: u32) -> WorkLists {
    let mut records = vec![];
    let lists = waves::assign(plan, tiles(form, pairs, clusters, &mut records), clusters);
    let tiles = || lists.iter().map(Vec::as_slice);
    WorkLists {
        grid: [lists.len() as u32, 1],
        heads: heads(tiles(), |_| []),
        tiles: in_rows(tiles(), SharedTile::words),
        workspace: 0,
        stage_metadata: records,
    }
}

/// The tiles with their costs, in the order in which they are computed.
fn tiles(form: &SharedPairs, pairs: &Pairs, clusters: u32, records: &mut Vec<u32>) -> Vec<(SharedTile, u64)> {
    let (high, wide) = (form.rows as usize, form.columns as usize);
    let mut tiles = vec![];
    for (row, column) in places(pairs, (high, wide), clusters) {
        let members = (0..high).flat_map(|i| (0..wide).map(move |j| (i, j)));
        let blocks: Vec<Option<usize>> = members.map(|(i, j)| pairs.number(row + i, column + j)).collect();
        if blocks.iter().any(Option::is_some) {
            tiles.push(tile(form, pairs, &blocks, records));
        }
    }
    tiles
}

/// The tile of some blocks of C, those of a block row one behind another.
fn tile(form: &SharedPairs, pairs: &Pairs, blocks: &[Option<usize>], records: &mut Vec<u32>) -> (SharedTile, u64) {
    let (rows, wide, words) = (form.rows as usize, form.columns as usize, form.record() as usize);
    let of_consumer = rows / form.consumers as usize;
    // Those of consumers, or of all blocks.
    let (mut c_rows, mut c_col) = ([TileScheduler::OUTSIDE; 2 * MOST], 0);
    let mut union: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (at, block) in blocks.iter().enumerate().filter_map(|(at, block)| Some((at, (*block)?))) {
        let (row, column) = (at / wide, at % wide);
        let (c_row, of_block) = pairs.place(block);
        match pairs.is_dense() {
            // A consumer's first row.
            true if column == 0 && row % of_consumer == 0 => c_rows[row / of_consumer] = c_row as u32,
            true => {}
            false => c_rows[at] = c_row as u32,
        }
        if column == 0 {
            c_col = of_block as u32;
        }
        for [depth, of_a, of_b] in pairs.of_block(block) {
            let record = union.entry(depth).or_insert_with(|| vec![0; words]);
            record[0] |= 1 << row | 1 << (SharedPairs::COLUMN_BIT as usize + column);
            (record[1 + row], record[1 + rows + column]) = (of_a, of_b);
        }
    }
    if union.is_empty() {
        union.insert(0, vec![0; words]);
    }
    let (first, count) = ((records.len() / words) as u32, union.len() as u32);
    let loaded = union.values().fold([0, 0], |[of_a, of_b], record| {
        let [rows, columns] = taking_part(record[0]);
        [of_a + rows, of_b + columns]
    });
    records.extend(union.into_values().flatten());
    let [c_rows, a_rows] = [0, MOST].map(|first| std::array::from_fn(|at| c_rows[first + at]));
    let tile = SharedTile { c_col, first, count, c_rows, a_rows, role: Role::Whole };
    (tile, pairs_tile(form, loaded))
}

/// How many blocks of A and of B take part by a record's first word.
fn taking_part(mask: u32) -> [u64; 2] {
    let (rows, columns) = (mask & ((1 << SharedPairs::COLUMN_BIT) - 1), mask >> SharedPairs::COLUMN_BIT);
    [rows, columns].map(|bits| u64::from(bits.count_ones()))
}
