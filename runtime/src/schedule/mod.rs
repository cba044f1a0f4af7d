//! Per-pattern work plans: which cluster computes which tiles of C, in which order.
//!
//! A kernel that walks tiles is persistent: as many clusters as fit the device are launched, and each walks its own
//! list. The list is made on the host from the row lengths of the pattern, so that clusters finish together however
//! uneven the rows are, and so that tiles that run at the same time read the same columns of B from L2. A kernel that
//! walks blocks has one CTA for each, and a list of blocks.

mod balance;
mod batch;
mod blocks;
mod packed;
mod sampled;
mod walked;

use bsr_codegen::{ClusterTile, Plan, Schedule as Order, TileScheduler};

pub use batch::{BatchItem, BatchLists};
pub use blocks::BlockWork;
pub(crate) use blocks::slices;
use packed::Packed;
pub use sampled::SampledWork;
pub use walked::Walked;

use crate::Structure;

/// The work of one launch as its kernel reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkLists {
    /// What [`Plan::launch`] takes as its grid.
    pub grid: [u32; 2],
    /// The kernel's `work_head`; empty for a kernel that walks blocks.
    pub heads: Vec<u32>,
    /// The kernel's `work`.
    pub items: Vec<u32>,
    /// Bytes of the kernel's `workspace`, zero before the first launch and again after each; 0 for none.
    pub workspace: usize,
    /// The kernel's `packed`; empty for a kernel that has the pattern as it is stored.
    pub packed: Vec<u32>,
}

impl WorkLists {
    /// Lists the work of a kernel on a pattern and a dense factor of `n` columns (of `n` rows where B is sparse), for at most `clusters` clusters at a time.
    pub fn new(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> Self {
        match plan.tile_scheduler() {
            TileScheduler::Static => {
                let work = WorkPlan::new(plan, structure, n, clusters);
                let heads = work.heads(Walked::new(plan, structure));
                Self { grid: [work.clusters(), 1], heads, items: work.words(), ..Self::default() }
            }
            TileScheduler::StageMetadata(packing) => {
                let walked = Walked::new(plan, structure);
                let packed = Packed::new(&packing, &walked);
                let work = WorkPlan::deal(plan, structure, n, clusters, &packed.tiles(&packing, walked.rows));
                Self {
                    grid: [work.clusters(), 1],
                    heads: work.totals(),
                    items: work.words(),
                    packed: packed.words,
                    ..Self::default()
                }
            }
            TileScheduler::CtaPerBlock => {
                let work = BlockWork::new(plan, structure, n);
                let grid = [work.items.len() as u32, work.columns];
                Self { grid, items: work.words(), ..Self::default() }
            }
            TileScheduler::Sddmm => match SampledWork::new(plan, structure, n, clusters) {
                Some(work) => Self {
                    grid: [work.ctas(), 1],
                    heads: work.heads(),
                    items: work.words(),
                    workspace: work.workspace(),
                    ..Self::default()
                },
                None => Self::default(),
            },
        }
    }

    /// Whether there is nothing to launch: no stored block, for a kernel that walks blocks or samples a product.
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }
}

/// One output tile of a cluster: the four 32-bit words that the kernel loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// First row of C, in elements; where B is sparse, first column.
    pub c_row: u32,
    /// First column of C, in elements; where B is sparse, first row.
    pub c_col: u32,
    /// First row of A's values seen as an `[nnzb * bm, bk]` matrix: the row's first block, plus the tile's
    /// offset inside a block. Of a sparse operand that is walked by block columns, the same with its blocks in the
    /// order of the transposed index, `bk` rows each.
    pub a_row: u32,
    /// Stored blocks of the block row; 0 writes zeros. With a packed pattern: `a_row` is the first record, this their
    /// number.
    pub blocks: u32,
}

impl WorkItem {
    fn words(&self) -> [u32; 4] {
        [self.c_row, self.c_col, self.a_row, self.blocks]
    }
}

/// The work of every cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkPlan {
    /// Items of cluster `c` are `items[offsets[c]..offsets[c + 1]]`.
    pub offsets: Vec<u32>,
    /// All items, by cluster, in the order in which each cluster takes them.
    pub items: Vec<WorkItem>,
}

/// A tile with what it costs: an item before it is dealt out.
#[derive(Clone, Copy, Debug)]
struct Tile {
    item: WorkItem,
    cost: u64,
}

impl WorkPlan {
    /// Deals the tiles of C to at most `clusters` clusters.
    ///
    /// `n` is the extent of C along the dense factor, in elements: N, or M where B is sparse.
    pub fn new(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> Self {
        let walked = Walked::new(plan, structure);
        let rows = tile_rows(&plan.cluster_tile(), walked.row_ptr, walked.rows);
        Self::deal(plan, structure, n, clusters, &rows)
    }

    /// Deals `rows`, the tiles of the first column, and those below every other column of tiles.
    fn deal(plan: &Plan, structure: &Structure, n: usize, clusters: u32, rows: &[Tile]) -> Self {
        let columns = tile_columns(&plan.cluster_tile(), n);
        let group = group(plan, structure.stored(), Walked::new(plan, structure).cols);
        let clusters = (clusters as usize).min(rows.len() * columns.len()).max(1);
        let lists = match plan.spec().schedule.unwrap_or(Order::Balanced) {
            Order::Balanced => balance::balanced(rows, &columns, group, clusters),
            Order::Strided => balance::strided(rows, &columns, group, clusters),
        };
        Self::from_lists(lists)
    }

    /// The kernel's `work_head`: the number of items of every cluster, then for every cluster the first 32 block
    /// columns of its first item, so that no cluster waits for an index that it finds through another one.
    pub fn heads<'a>(&self, walked: impl Into<Walked<'a>>) -> Vec<u32> {
        let walked = walked.into();
        let mut words = self.lengths();
        for ends in self.offsets.windows(2) {
            let mut columns = [0; HEAD_COLUMNS];
            if let Some(item) = self.items[ends[0] as usize..ends[1] as usize].first() {
                let first = item.a_row as usize / walked.block.0;
                let stored = &walked.col_idx[first..first + item.blocks as usize];
                for (column, stored) in columns.iter_mut().zip(stored) {
                    *column = *stored as u32;
                }
            }
            words.extend(columns);
        }
        words
    }

    /// The `work_head` of a kernel with packed patterns: items and stages of every cluster.
    fn totals(&self) -> Vec<u32> {
        let totals = |ends: &[u32]| {
            let items = &self.items[ends[0] as usize..ends[1] as usize];
            [items.len() as u32, items.iter().map(|item| item.blocks).sum()]
        };
        self.offsets.windows(2).flat_map(totals).collect()
    }

    /// Items of each cluster.
    fn lengths(&self) -> Vec<u32> {
        self.offsets.windows(2).map(|ends| ends[1] - ends[0]).collect()
    }

    /// The kernel's `work`: item `i` of cluster `c` is words `4 * (i * clusters + c)` and the three after it, so
    /// that a cluster finds its first item without looking anything up. Short lists are padded with zeros.
    pub fn words(&self) -> Vec<u32> {
        let clusters = self.clusters() as usize;
        let rows = self.lengths().into_iter().max().unwrap_or(0) as usize;
        let mut words = vec![0; 4 * rows * clusters];
        for (c, ends) in self.offsets.windows(2).enumerate() {
            for (i, item) in self.items[ends[0] as usize..ends[1] as usize].iter().enumerate() {
                let at = 4 * (i * clusters + c);
                words[at..at + 4].copy_from_slice(&item.words());
            }
        }
        words
    }

    /// Clusters that the plan was made for.
    pub fn clusters(&self) -> u32 {
        self.offsets.len() as u32 - 1
    }

    fn from_lists(lists: Vec<Vec<WorkItem>>) -> Self {
        let mut offsets = vec![0];
        let mut items = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        for list in lists {
            items.extend(list);
            offsets.push(items.len() as u32);
        }
        Self { offsets, items }
    }
}

/// Bytes of B that concurrent tiles may share in L2, and of A beyond which A does not stay there from one column
/// of tiles to the next. An H200 has 60 MB of L2 in two halves, each with its own copy of what both read.
const PANEL_BYTES: usize = 17 << 20;

/// Columns of tiles to walk together under one block row. A is read once for every group: wider groups read it
/// less often, as long as their columns of B stay in L2.
fn group(plan: &Plan, stored: usize, cols: usize) -> usize {
    let spec = plan.spec();
    let a_bytes = stored * spec.a.bytes() as usize;
    let column_bytes = cols * (plan.cluster_tile().columns * spec.b.bytes()) as usize;
    if a_bytes > PANEL_BYTES { (PANEL_BYTES / column_bytes.max(1)).max(1) } else { 1 }
}

/// First columns of the tiles along N.
fn tile_columns(tile: &ClusterTile, n: usize) -> Vec<u32> {
    (0..n as u32).step_by(tile.columns as usize).collect()
}

/// The tiles of the first column, one a row slice, with their costs.
fn tile_rows(tile: &ClusterTile, row_ptr: &[i32], m: usize) -> Vec<Tile> {
    let mut tiles = vec![];
    let (steps, slots) = tile.stages_per_block;
    for (block_row, ends) in row_ptr.windows(2).enumerate() {
        let (first, blocks) = (ends[0] as u32, (ends[1] - ends[0]) as u32);
        for slice in (0..tile.block_rows).step_by(tile.rows as usize) {
            let c_row = block_row as u32 * tile.block_rows + slice;
            if (c_row as usize) < m {
                tiles.push(Tile {
                    item: WorkItem { c_row, c_col: 0, a_row: first * tile.block_rows + slice, blocks },
                    cost: u64::from(blocks.div_ceil(slots).max(1) * steps) + TILE_COST,
                });
            }
        }
    }
    tiles
}

/// Block columns of a cluster's first item that its head holds: one a lane of the producer warp.
const HEAD_COLUMNS: usize = 32;

/// What a tile costs beside its stages, in stages: the pipeline between two tiles is never quite full.
const TILE_COST: u64 = 1;

#[cfg(test)]
mod tests;
