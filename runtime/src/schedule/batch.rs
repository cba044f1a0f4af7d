//! The work of a launch that computes a list of problems.

use std::collections::HashMap;

use bsr_codegen::{Plan, Schedule as Order, StagePacking, TileScheduler};

use super::balance::{deal, walk};
use super::{HEAD_COLUMNS, Packed, Tile, Walked, WorkItem, group, tile_columns, tile_rows};
use crate::Structure;

/// Words of an item.
const WORDS: usize = 8;

/// An item of a batch: a tile of one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchItem {
    /// The tile. `a_row` is a row of this problem's values; of a sparse operand that is walked by block columns, the
    /// place within a block. With packed patterns, a record of those of all problems.
    pub tile: WorkItem,
    /// The number of the problem.
    pub problem: u32,
    /// Where the blocks of the tile's row begin among the block columns of all problems; 0 with packed patterns.
    pub first: u32,
    /// Whole blocks along the problem's K.
    pub whole_blocks: u32,
}

impl BatchItem {
    fn words(&self) -> [u32; WORDS] {
        let [c_row, c_col, a_row, blocks] = self.tile.words();
        [c_row, c_col, a_row, blocks, self.problem, self.first, self.whole_blocks, 0]
    }

    /// As kernels with packed patterns read it.
    fn packed_words(&self) -> [u32; WORDS] {
        let [c_row, c_col, record, records] = self.tile.words();
        [c_row, c_col, record, records, self.problem, self.whole_blocks, 0, 0]
    }
}

/// The work of a batch as its kernel reads it: block columns of all problems one after the other, and items that say
/// whose tile they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchLists {
    /// What [`Plan::launch`] takes as its grid; 0 clusters where there is no tile.
    pub grid: [u32; 2],
    /// The kernel's `work_head`.
    pub heads: Vec<u32>,
    /// The kernel's `work`.
    pub items: Vec<u32>,
    /// The kernel's `col_idx`. Problems of one [`Structure`] share a part.
    pub col_idx: Vec<u32>,
    /// The kernel's `block_idx`; empty for one that walks block rows.
    pub block_idx: Vec<u32>,
    /// The kernel's `packed`, in place of both; empty for a kernel that has the patterns as they are stored.
    pub packed: Vec<u32>,
}

impl BatchLists {
    /// Lists the work of problems, each a pattern and the extent of its C along the dense factor, for at most `clusters`
    /// clusters at a time.
    pub fn new(plan: &Plan, problems: &[(&Structure, usize)], clusters: u32) -> Self {
        match plan.tile_scheduler() {
            TileScheduler::StageMetadata(packing) => Self::packed(plan, &packing, problems, clusters),
            _ => Self::stored(plan, problems, clusters),
        }
    }

    /// Patterns are packed, each once, one after the other.
    fn packed(plan: &Plan, packing: &StagePacking, problems: &[(&Structure, usize)], clusters: u32) -> Self {
        let tile = plan.cluster_tile();
        let mut words = vec![];
        let mut known: HashMap<*const Structure, Vec<Tile>> = HashMap::new();
        let mut tiles = vec![];
        for (number, (structure, along)) in problems.iter().enumerate() {
            let walked = Walked::new(plan, structure);
            let rows = known.entry(std::ptr::from_ref(*structure)).or_insert_with(|| {
                let packed = Packed::new(packing, &walked);
                let first = (words.len() / Packed::WORDS) as u32;
                words.extend_from_slice(&packed.words);
                let mut rows = packed.tiles(packing, walked.rows);
                rows.iter_mut().for_each(|tile| tile.item.a_row += first);
                rows
            });
            let group = group(plan, structure.stored(), walked.cols);
            let (problem, whole_blocks) = (number as u32, (walked.cols / walked.block.1) as u32);
            let columns = tile_columns(&tile, *along);
            let walk = walk(rows, &columns, group);
            tiles.extend(
                walk.map(|Tile { item, cost }| (BatchItem { tile: item, problem, first: 0, whole_blocks }, cost)),
            );
        }
        let lists = dealt(plan, &tiles, clusters);
        let totals = |list: &Vec<BatchItem>| [list.len() as u32, list.iter().map(|item| item.tile.blocks).sum()];
        Self {
            grid: [lists.len() as u32, 1],
            heads: lists.iter().flat_map(totals).collect(),
            items: self::words(&lists, BatchItem::packed_words),
            packed: words,
            ..Self::default()
        }
    }

    fn stored(plan: &Plan, problems: &[(&Structure, usize)], clusters: u32) -> Self {
        let tile = plan.cluster_tile();
        let (mut col_idx, mut block_idx) = (vec![], vec![]);
        let mut places: HashMap<*const Structure, usize> = HashMap::new();
        let mut tiles = vec![];
        for (number, (structure, along)) in problems.iter().enumerate() {
            let walked = Walked::new(plan, structure);
            let place = *places.entry(std::ptr::from_ref(*structure)).or_insert_with(|| {
                let place = col_idx.len();
                col_idx.extend(walked.col_idx.iter().map(|column| column.cast_unsigned()));
                if plan.reads_block_columns() {
                    block_idx.extend(structure.transposed().block_idx().iter().map(|block| block.cast_unsigned()));
                }
                place
            });
            let rows = tile_rows(&tile, walked.row_ptr, walked.rows);
            let group = group(plan, structure.stored(), walked.cols);
            let whole_blocks = (walked.cols / walked.block.1) as u32;
            for Tile { item, cost } in walk(&rows, &tile_columns(&tile, *along), group) {
                let first = item.a_row / tile.block_rows;
                let a_row = if plan.reads_block_columns() { item.a_row % tile.block_rows } else { item.a_row };
                let (tile, problem, first) = (WorkItem { a_row, ..item }, number as u32, place as u32 + first);
                tiles.push((BatchItem { tile, problem, first, whole_blocks }, cost));
            }
        }
        let lists = dealt(plan, &tiles, clusters);
        Self {
            grid: [lists.len() as u32, 1],
            heads: heads(&lists, &col_idx),
            items: words(&lists, BatchItem::words),
            col_idx,
            block_idx,
            packed: vec![],
        }
    }

    /// Whether there is nothing to launch.
    pub fn is_empty(&self) -> bool {
        self.grid[0] == 0
    }
}

/// The tiles of at most `clusters` clusters, as many as there are tiles for.
fn dealt(plan: &Plan, tiles: &[(BatchItem, u64)], clusters: u32) -> Vec<Vec<BatchItem>> {
    let balanced = plan.spec().schedule.unwrap_or(Order::Balanced) == Order::Balanced;
    deal(tiles, (clusters as usize).min(tiles.len()), balanced)
}

/// The number of items of every cluster, then for each the first block columns of its first item.
fn heads(lists: &[Vec<BatchItem>], col_idx: &[u32]) -> Vec<u32> {
    let mut words: Vec<u32> = lists.iter().map(|list| list.len() as u32).collect();
    for list in lists {
        let mut columns = [0; HEAD_COLUMNS];
        if let Some(item) = list.first() {
            let stored = &col_idx[item.first as usize..][..item.tile.blocks as usize];
            columns.iter_mut().zip(stored).for_each(|(column, stored)| *column = *stored);
        }
        words.extend(columns);
    }
    words
}

/// Item `i` of cluster `c` is words `8 * (i * clusters + c)` and the seven after it.
fn words(lists: &[Vec<BatchItem>], of: fn(&BatchItem) -> [u32; WORDS]) -> Vec<u32> {
    let rows = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut words = vec![0; WORDS * rows * lists.len()];
    for (c, list) in lists.iter().enumerate() {
        for (i, item) in list.iter().enumerate() {
            words[WORDS * (i * lists.len() + c)..][..WORDS].copy_from_slice(&of(item));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use super::*;
    use crate::Pattern;

    fn plan(text: &str) -> Plan {
        Plan::new(&text.parse().expect("a spec")).expect("a plan")
    }

    #[test]
    fn every_tile_of_every_problem_is_dealt_once() {
        for text in [
            "bm = 128, bn = 64, bk = 32, batch = on",
            "bm = 40, bn = 64, bk = 128, transpose = on, batch = on",
            "bm = 128, bn = 64, bk = 32, batch = on, schedule = strided",
        ] {
            let plan = plan(text);
            let (spec, tile) = (*plan.spec(), plan.cluster_tile());
            let block = (spec.bm as usize, spec.bk as usize);
            let draw = |rows, cols, density| Pattern::Random(density).structure(rows, cols, block, 7).unwrap();
            let patterns = [draw(300, 500, 0.6), draw(129, 1000, 0.1), draw(700, 200, 1.0)];
            let problems = [(&patterns[0], 100), (&patterns[1], 65), (&patterns[0], 64), (&patterns[2], 0)];
            let lists = BatchLists::new(&plan, &problems, 5);
            assert_eq!(lists.grid, [5, 1]);
            let mut met = HashSet::new();
            for item in lists.items.chunks(WORDS).filter(|item| item[6] > 0) {
                let (structure, along) = problems[item[4] as usize];
                let walked = Walked::new(&plan, structure);
                assert!((item[0] as usize) < walked.rows && (item[1] as usize) < along);
                let row = (item[0] / tile.block_rows) as usize;
                let (start, end) = (walked.row_ptr[row] as usize, walked.row_ptr[row + 1] as usize);
                assert_eq!(item[3] as usize, end - start);
                let stored: Vec<i32> =
                    lists.col_idx[item[5] as usize..][..end - start].iter().map(|c| *c as i32).collect();
                assert_eq!(stored, walked.col_idx[start..end]);
                let slice = item[0] % tile.block_rows;
                let first = if plan.reads_block_columns() { 0 } else { start as u32 };
                assert_eq!(item[2], first * tile.block_rows + slice);
                assert_eq!(item[6] as usize, walked.cols / walked.block.1);
                assert!(met.insert((item[4], item[0], item[1])), "{item:?} twice");
            }
            let tiles = |(structure, along): &(&Structure, usize)| {
                let rows = Walked::new(&plan, structure).rows;
                rows.div_ceil(tile.rows as usize) * along.div_ceil(tile.columns as usize)
            };
            assert_eq!(met.len(), problems.iter().map(tiles).sum::<usize>(), "{text}");
            // The pattern that two problems share is there once.
            assert_eq!(lists.col_idx.len(), patterns.iter().map(Structure::nnzb).sum::<usize>());
        }
    }

    /// A pattern that two problems share is packed once, and every tile says where its records are.
    #[test]
    fn packed_patterns_are_there_once() {
        for text in [
            "bm = 24, bn = 64, bk = 32, pack = 3, batch = on",
            "bm = 200, bn = 256, bk = 24, batch = on",
            "bm = 32, bn = 64, bk = 40, transpose = on, batch = on, schedule = strided",
        ] {
            let plan = plan(text);
            let (spec, tile) = (*plan.spec(), plan.cluster_tile());
            let TileScheduler::StageMetadata(packing) = plan.tile_scheduler() else {
                panic!("{text}: another tile scheduler")
            };
            let block = (spec.bm as usize, spec.bk as usize);
            let draw = |rows, cols, density| Pattern::Random(density).structure(rows, cols, block, 7).unwrap();
            let patterns = [draw(300, 500, 0.6), draw(129, 1000, 0.1), draw(700, 200, 1.0)];
            let problems = [(&patterns[0], 100), (&patterns[1], 65), (&patterns[0], 64), (&patterns[2], 0)];
            let lists = BatchLists::new(&plan, &problems, 5);
            let all = patterns.each_ref().map(|pattern| Packed::new(&packing, &Walked::new(&plan, pattern)));
            assert_eq!(lists.packed, all.each_ref().map(|packed| packed.words.clone()).concat());
            let starts = [0, all[0].words.len() / Packed::WORDS];
            let mut met = HashSet::new();
            for (cluster, head) in lists.heads.chunks(2).enumerate() {
                let own = lists.items.chunks(WORDS).skip(cluster).step_by(5).take(head[0] as usize);
                assert_eq!(head[1], own.clone().map(|item| item[3]).sum::<u32>());
                for item in own {
                    let pattern = [0, 1, 0][item[4] as usize];
                    let rows = packing.pack * packing.rows * packing.slices;
                    let ends = &all[pattern].groups[(item[0] / rows) as usize..][..2];
                    assert_eq!((item[2] as usize, item[3]), (starts[pattern] + ends[0] as usize, ends[1] - ends[0]));
                    assert_eq!(
                        item[5] as usize,
                        Walked::new(&plan, problems[item[4] as usize].0).cols / packing.depth as usize
                    );
                    assert!(met.insert((item[4], item[0], item[1])), "{item:?} twice");
                }
            }
            let tiles = |(structure, along): &(&Structure, usize)| {
                Walked::new(&plan, structure).rows.div_ceil(tile.rows as usize) * along.div_ceil(tile.columns as usize)
            };
            assert_eq!(met.len(), problems.iter().map(tiles).sum::<usize>(), "{text}");
        }
    }

    #[test]
    fn no_tile_is_nothing_to_launch() {
        let plan = plan("bm = 64, bn = 64, bk = 64, batch = on");
        let empty = Structure::empty(0, 64, (64, 64)).unwrap();
        assert!(BatchLists::new(&plan, &[(&empty, 64)], 132).is_empty());
        assert!(BatchLists::new(&plan, &[], 132).is_empty());
    }
}
