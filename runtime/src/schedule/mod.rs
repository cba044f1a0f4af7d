//! Per-pattern work plans: which cluster computes which tiles of C, in which order.
//!
//! A kernel is persistent: as many clusters as fit the device are launched, and each walks its own list. The
//! list is made on the host from the row lengths of the pattern, so that clusters finish together however
//! uneven the rows are, and so that tiles that run at the same time read the same columns of B from L2.

mod balance;

use bsr_codegen::{ClusterTile, Plan, Schedule as Order};

/// One output tile of a cluster: the four 32-bit words that the kernel loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// First row of C, in elements.
    pub c_row: u32,
    /// First column of C, in elements.
    pub c_col: u32,
    /// First row of A's values seen as an `[nnzb * bm, bk]` matrix: the row's first block, plus the tile's
    /// offset inside a block.
    pub a_row: u32,
    /// Stored blocks of the block row; 0 writes zeros.
    pub blocks: u32,
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
    /// Deals the tiles of C\[m, n\] to at most `clusters` clusters.
    ///
    /// `row_ptr` is the pattern's (one entry more than there are block rows); `m` and `n` are in elements.
    pub fn new(plan: &Plan, row_ptr: &[i32], m: usize, n: usize, clusters: u32) -> Self {
        let tile = plan.cluster_tile();
        let columns = tile_columns(&tile, n);
        let rows = tile_rows(&tile, row_ptr, m);
        let clusters = (clusters as usize).min(rows.len() * columns.len()).max(1);
        let lists = match plan.spec().schedule.unwrap_or(Order::Balanced) {
            Order::Balanced => balance::balanced(&rows, &columns, clusters),
            Order::Strided => balance::strided(&rows, &columns, clusters),
        };
        Self::from_lists(lists)
    }

    /// Items of each cluster: the kernel's `work_len`.
    pub fn lengths(&self) -> Vec<u32> {
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
                words[at..at + 4].copy_from_slice(&[item.c_row, item.c_col, item.a_row, item.blocks]);
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
                    item: WorkItem {
                        c_row,
                        c_col: 0,
                        a_row: first * tile.block_rows + slice,
                        blocks,
                    },
                    cost: u64::from(blocks.div_ceil(slots).max(1) * steps) + TILE_COST,
                });
            }
        }
    }
    tiles
}

/// What a tile costs beside its stages, in stages: the pipeline between two tiles is never quite full.
const TILE_COST: u64 = 1;

#[cfg(test)]
mod tests;
