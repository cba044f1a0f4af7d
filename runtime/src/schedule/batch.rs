//! The work of a launch that computes a list of problems.

use std::collections::HashMap;

use bsr_codegen::{Plan, SplitForm, StagePacking, TileScheduler};

use super::split_rows::RowTile;
use super::tile::{WorkTile, heads, in_rows, lists_of, tile_rows};
use super::tiles::{Tiles, policy};
use super::{BlockIndex, SddmmWork, StageMetadata, assign, divide_k};
use crate::Structure;

/// Words of a work tile, and of one that says how much of K it is beside stored blocks.
const WORDS: usize = 8;
const SPLIT_WORDS: usize = 12;

/// A work tile of a batch: a tile of one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTile {
    /// The tile within its problem. `a_row` is a row of this problem's values. Of a sparse operand that is read by
    /// block columns, it is the first row within the block. With stage metadata, it is a record among those of all
    /// problems.
    pub within: WorkTile,
    /// The number of the problem.
    pub problem: u32,
    /// Where the blocks of the tile's row begin among the block columns of all problems; 0 with stage metadata.
    pub first: u32,
    /// Whole blocks along the problem's K.
    pub whole_blocks: u32,
}

impl BatchTile {
    /// A tile of the only problem.
    pub(super) fn alone(within: WorkTile) -> Self {
        Self { within, problem: 0, first: 0, whole_blocks: 0 }
    }

    fn words(&self) -> [u32; WORDS] {
        let [c_row, c_col, a_row, blocks] = self.within.words();
        [c_row, c_col, a_row, blocks, self.problem, self.first, self.whole_blocks, 0]
    }

    /// As kernels with `split` read it.
    fn split_words(&self) -> [u32; SPLIT_WORDS] {
        let [c_row, c_col, a_row, blocks] = self.within.words();
        let [parts, place] = self.within.role.words();
        [c_row, c_col, a_row, blocks, self.problem, self.first, self.whole_blocks, 0, parts, place, 0, 0]
    }

    /// As kernels with stage metadata read it.
    fn metadata_words(&self) -> [u32; WORDS] {
        let ([c_row, c_col, record, records], [parts, place]) = (self.within.words(), self.within.role.words());
        [c_row, c_col, record, records, self.problem, self.whole_blocks, parts, place]
    }
}

/// The work of a batch as its kernel reads it: block columns of all problems one after the other, and tiles that
/// say which problem they belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchLists {
    /// What [`Plan::launch`] takes as its grid; 0 clusters where there is no tile.
    pub grid: [u32; 2],
    /// The kernel's `work_head`.
    pub heads: Vec<u32>,
    /// The kernel's `work`.
    pub tiles: Vec<u32>,
    /// The kernel's `col_idx`. Problems of one [`Structure`] share a part.
    pub col_idx: Vec<u32>,
    /// The kernel's `block_idx`; empty for one that reads block rows.
    pub block_idx: Vec<u32>,
    /// The kernel's `packed`: stage metadata in place of both. Empty for a kernel that reads the patterns as they are
    /// stored.
    pub stage_metadata: Vec<u32>,
    /// Bytes of the kernel's `workspace`, zero before the first launch and again after each; 0 for none.
    pub workspace: usize,
}

impl BatchLists {
    /// Lists the work of problems, each a pattern and the extent of its C along the dense factor, for at most `clusters`
    /// clusters at a time.
    pub fn new(plan: &Plan, problems: &[(&Structure, usize)], clusters: u32) -> Self {
        if let Some(work) = SddmmWork::batch(plan, problems, clusters) {
            return Self { grid: [work.ctas(), 1], heads: work.heads(), tiles: work.words(), ..Self::default() };
        }
        match plan.tile_scheduler() {
            TileScheduler::StageMetadata(packing) => Self::with_metadata(plan, &packing, problems, clusters),
            _ => Self::stored(plan, problems, clusters),
        }
    }

    /// Makes the stage metadata of each pattern once, one after the other.
    fn with_metadata(plan: &Plan, packing: &StagePacking, problems: &[(&Structure, usize)], clusters: u32) -> Self {
        let mut words = vec![];
        let mut known: HashMap<*const Structure, Vec<(WorkTile, u64)>> = HashMap::new();
        let mut tiles = vec![];
        for (number, (structure, along)) in problems.iter().enumerate() {
            let index = BlockIndex::new(plan, structure);
            let rows = known.entry(std::ptr::from_ref(*structure)).or_insert_with(|| {
                let metadata = StageMetadata::new(packing, &index);
                let first = (words.len() / StageMetadata::WORDS) as u32;
                words.extend_from_slice(&metadata.words);
                let mut rows = metadata.tiles(packing, index.rows);
                rows.iter_mut().for_each(|(tile, _)| tile.a_row += first);
                rows
            });
            let (problem, whole_blocks) = (number as u32, (index.cols / index.block.1) as u32);
            let of = |(within, cost)| (BatchTile { within, problem, first: 0, whole_blocks }, cost);
            tiles.extend(Tiles::new(plan, structure, rows.clone(), (*along, clusters)).in_order().map(of));
        }
        let metadata = StageMetadata { words, groups: vec![] };
        let divisible = |form: &SplitForm, tile| RowTile::of_records(packing, form, &metadata, tile);
        let (lists, workspace) = assigned(plan, &tiles, clusters, divisible);
        let totals = |list: &Vec<BatchTile>| [list.len() as u32, list.iter().map(|tile| tile.within.blocks).sum()];
        Self {
            grid: [lists.len() as u32, 1],
            heads: lists.iter().flat_map(totals).collect(),
            tiles: in_rows(lists.iter().map(Vec::as_slice), BatchTile::metadata_words),
            stage_metadata: metadata.words,
            workspace,
            ..Self::default()
        }
    }

    fn stored(plan: &Plan, problems: &[(&Structure, usize)], clusters: u32) -> Self {
        let cluster_tile = plan.cluster_tile();
        let (mut col_idx, mut block_idx) = (vec![], vec![]);
        let mut places: HashMap<*const Structure, usize> = HashMap::new();
        let mut tiles = vec![];
        for (number, (structure, along)) in problems.iter().enumerate() {
            let index = BlockIndex::new(plan, structure);
            let place = *places.entry(std::ptr::from_ref(*structure)).or_insert_with(|| {
                let place = col_idx.len();
                col_idx.extend(index.col_idx.iter().map(|column| column.cast_unsigned()));
                if plan.reads_block_columns() {
                    block_idx.extend(structure.by_columns().block_idx().iter().map(|block| block.cast_unsigned()));
                }
                place
            });
            let rows = tile_rows(&cluster_tile, index.row_ptr, index.rows);
            let whole_blocks = (index.cols / index.block.1) as u32;
            for (tile, cost) in Tiles::new(plan, structure, rows, (*along, clusters)).in_order() {
                let first = tile.a_row / cluster_tile.block_rows;
                let a_row = if plan.reads_block_columns() { tile.a_row % cluster_tile.block_rows } else { tile.a_row };
                let (within, problem, first) = (WorkTile { a_row, ..tile }, number as u32, place as u32 + first);
                tiles.push((BatchTile { within, problem, first, whole_blocks }, cost));
            }
        }
        let (lists, workspace) = assigned(plan, &tiles, clusters, |form, tile| RowTile::of_blocks(plan, form, tile));
        Self {
            grid: [lists.len() as u32, 1],
            heads: heads(lists.iter().map(Vec::as_slice), |tile| {
                col_idx[tile.first as usize..][..tile.within.blocks as usize].iter().copied()
            }),
            tiles: match plan.split_form() {
                Some(_) => in_rows(lists.iter().map(Vec::as_slice), BatchTile::split_words),
                None => in_rows(lists.iter().map(Vec::as_slice), BatchTile::words),
            },
            col_idx,
            block_idx,
            stage_metadata: vec![],
            workspace,
        }
    }

    /// Whether there is nothing to launch.
    pub fn is_empty(&self) -> bool {
        self.grid[0] == 0
    }
}

/// The tiles of at most `clusters` clusters, of which each has some, and bytes of the workspace.
fn assigned(
    plan: &Plan,
    tiles: &[(BatchTile, u64)],
    clusters: u32,
    divisible: impl Fn(&SplitForm, BatchTile) -> RowTile,
) -> (Vec<Vec<BatchTile>>, usize) {
    let used = (clusters as usize).min(tiles.len());
    let whole = || lists_of(assign(tiles.to_vec(), policy(plan), |(_, cost)| *cost, used), |(tile, _)| tile);
    let Some(form) = plan.split_form().filter(|_| !tiles.is_empty()) else { return (whole(), 0) };
    let divisible = |tile| divisible(&form, tile);
    let all = tiles.iter().map(|(tile, _)| divisible(*tile));
    let whole = || lists_of(whole(), divisible);
    let (lists, places) = divide_k(plan.spec().split, None, all, whole, clusters as usize);
    (lists_of(lists, |tile| tile.tile), places as usize * form.partial_bytes as usize)
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
    fn every_tile_of_every_problem_is_assigned_once() {
        for text in [
            "bm = 128, bn = 64, bk = 32, batch = on",
            "bm = 40, bn = 64, bk = 128, transpose = on, batch = on",
            "bm = 128, bn = 64, bk = 32, batch = on, schedule = strided",
        ] {
            let plan = plan(text);
            let (spec, cluster_tile) = (*plan.spec(), plan.cluster_tile());
            let block = (spec.bm as usize, spec.bk as usize);
            let draw = |rows, cols, density| Pattern::Random(density).structure(rows, cols, block, 7).unwrap();
            let patterns = [draw(300, 500, 0.6), draw(129, 1000, 0.1), draw(700, 200, 1.0)];
            let problems = [(&patterns[0], 100), (&patterns[1], 65), (&patterns[0], 64), (&patterns[2], 0)];
            let lists = BatchLists::new(&plan, &problems, 5);
            assert_eq!(lists.grid, [5, 1]);
            let mut met = HashSet::new();
            for tile in lists.tiles.chunks(WORDS).filter(|tile| tile[6] > 0) {
                let (structure, along) = problems[tile[4] as usize];
                let index = BlockIndex::new(&plan, structure);
                assert!((tile[0] as usize) < index.rows && (tile[1] as usize) < along);
                let row = (tile[0] / cluster_tile.block_rows) as usize;
                let (start, end) = (index.row_ptr[row] as usize, index.row_ptr[row + 1] as usize);
                assert_eq!(tile[3] as usize, end - start);
                let stored: Vec<i32> =
                    lists.col_idx[tile[5] as usize..][..end - start].iter().map(|c| *c as i32).collect();
                assert_eq!(stored, index.col_idx[start..end]);
                let slice = tile[0] % cluster_tile.block_rows;
                let first = if plan.reads_block_columns() { 0 } else { start as u32 };
                assert_eq!(tile[2], first * cluster_tile.block_rows + slice);
                assert_eq!(tile[6] as usize, index.cols / index.block.1);
                assert!(met.insert((tile[4], tile[0], tile[1])), "{tile:?} twice");
            }
            let tiles = |(structure, along): &(&Structure, usize)| {
                let rows = BlockIndex::new(&plan, structure).rows;
                rows.div_ceil(cluster_tile.rows as usize) * along.div_ceil(cluster_tile.columns as usize)
            };
            assert_eq!(met.len(), problems.iter().map(tiles).sum::<usize>(), "{text}");
            // The pattern that two problems share is there once.
            assert_eq!(lists.col_idx.len(), patterns.iter().map(Structure::nnzb).sum::<usize>());
        }
    }

    /// The stage metadata of a pattern that two problems share is made once, and every tile says where its records are.
    #[test]
    fn stage_metadata_is_made_once() {
        for text in [
            "bm = 24, bn = 64, bk = 32, pack = 3, batch = on",
            "bm = 200, bn = 256, bk = 24, batch = on",
            "bm = 32, bn = 64, bk = 40, transpose = on, batch = on, schedule = strided",
        ] {
            let plan = plan(text);
            let (spec, cluster_tile) = (*plan.spec(), plan.cluster_tile());
            let TileScheduler::StageMetadata(packing) = plan.tile_scheduler() else {
                panic!("{text}: another tile scheduler")
            };
            let block = (spec.bm as usize, spec.bk as usize);
            let draw = |rows, cols, density| Pattern::Random(density).structure(rows, cols, block, 7).unwrap();
            let patterns = [draw(300, 500, 0.6), draw(129, 1000, 0.1), draw(700, 200, 1.0)];
            let problems = [(&patterns[0], 100), (&patterns[1], 65), (&patterns[0], 64), (&patterns[2], 0)];
            let lists = BatchLists::new(&plan, &problems, 5);
            let all = patterns.each_ref().map(|pattern| StageMetadata::new(&packing, &BlockIndex::new(&plan, pattern)));
            assert_eq!(lists.stage_metadata, all.each_ref().map(|metadata| metadata.words.clone()).concat());
            let starts = [0, all[0].words.len() / StageMetadata::WORDS];
            let mut met = HashSet::new();
            for (cluster, head) in lists.heads.chunks(2).enumerate() {
                let own = lists.tiles.chunks(WORDS).skip(cluster).step_by(5).take(head[0] as usize);
                assert_eq!(head[1], own.clone().map(|tile| tile[3]).sum::<u32>());
                for tile in own {
                    let pattern = [0, 1, 0][tile[4] as usize];
                    let rows = packing.pack * packing.rows * packing.slices;
                    let ends = &all[pattern].groups[(tile[0] / rows) as usize..][..2];
                    assert_eq!((tile[2] as usize, tile[3]), (starts[pattern] + ends[0] as usize, ends[1] - ends[0]));
                    assert_eq!(
                        tile[5] as usize,
                        BlockIndex::new(&plan, problems[tile[4] as usize].0).cols / packing.depth as usize
                    );
                    assert!(met.insert((tile[4], tile[0], tile[1])), "{tile:?} twice");
                }
            }
            let tiles = |(structure, along): &(&Structure, usize)| {
                BlockIndex::new(&plan, structure).rows.div_ceil(cluster_tile.rows as usize)
                    * along.div_ceil(cluster_tile.columns as usize)
            };
            assert_eq!(met.len(), problems.iter().map(tiles).sum::<usize>(), "{text}");
        }
    }

    /// Parts of a tile's K follow on one another, and each says where its blocks are among those of all problems.
    #[test]
    fn parts_are_of_the_tile_that_collects_them() {
        for text in [
            "bm = 128, bn = 64, bk = 32, batch = on, split = 3",
            "bm = 64, bn = 64, bk = 64, transpose = on, batch = on, split = auto",
        ] {
            let plan = plan(text);
            let spec = *plan.spec();
            let draw = |rows, cols, density| {
                Pattern::Random(density).structure(rows, cols, (spec.bm as usize, spec.bk as usize), 7).unwrap()
            };
            let patterns = [draw(1300, 2500, 0.6), draw(1290, 1000, 0.1)];
            let lists = BatchLists::new(&plan, &[(&patterns[0], 100), (&patterns[1], 65), (&patterns[0], 64)], 400);
            let form = plan.split_form().unwrap();
            assert_eq!((form.tile_words as usize, form.role), (SPLIT_WORDS, 8));
            let mut parts: HashMap<[u32; 3], Vec<&[u32]>> = HashMap::new();
            for (cluster, tiles) in lists.heads[..lists.grid[0] as usize].iter().enumerate() {
                let own = lists.tiles.chunks(SPLIT_WORDS).skip(cluster).step_by(lists.grid[0] as usize);
                own.take(*tiles as usize)
                    .for_each(|tile| parts.entry([tile[4], tile[0], tile[1]]).or_default().push(tile));
            }
            let mut places = HashSet::new();
            for ([problem, c_row, _], mut of) in parts {
                of.sort_by_key(|tile| tile[5]);
                let index = BlockIndex::new(&plan, &patterns[problem as usize % 2]);
                let row = c_row as usize / index.block.0;
                let stored: Vec<u32> = of
                    .iter()
                    .flat_map(|tile| lists.col_idx[tile[5] as usize..][..tile[3] as usize].iter().copied())
                    .collect();
                let expected = &index.col_idx[index.row_ptr[row] as usize..index.row_ptr[row + 1] as usize];
                assert!(stored.iter().map(|column| *column as i32).eq(expected.iter().copied()), "{text}");
                let collected = if of.len() > 1 { of.len() as u32 - 1 } else { 0 };
                assert_eq!(of[0][8], collected, "{text}");
                assert!(of[1..].iter().all(|tile| tile[8] == SplitForm::CONTRIBUTES && places.insert(tile[9])));
            }
            assert_eq!(places.len() * form.partial_bytes as usize, lists.workspace);
            assert!(!places.is_empty(), "{text}");
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
