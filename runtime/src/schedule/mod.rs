//! Work plans, one for each pattern: which cluster computes which tiles of C, in which order.
//!
//! Most kernels are persistent: as many clusters as fit the device are launched, and each computes the tiles of its own
//! list. This is a static tile scheduler. The lists are made on the host from the row lengths of the pattern, so that
//! clusters finish together however uneven the rows are, and so that concurrent tiles read the same columns of B from
//! L2. A kernel with one CTA for each stored block gets a list of blocks instead.

mod assign;
mod batch;
mod block_index;
mod blocks;
mod columns;
mod costs;
mod long_rows;
mod sddmm;
mod shared_columns;
mod similar_rows;
mod split_k;
mod split_rows;
mod stage_metadata;

use bsr_codegen::{ClusterTile, Plan, Schedule, SplitForm, StagePacking, TileScheduler};

pub(crate) use assign::Clusters;
// The cost model assigns tiles as the lists do.
#[doc(hidden)]
pub use assign::{Assignment, Place, Policy, TileGrid, assign, most_in_order};
pub use batch::{BatchLists, BatchTile};
pub use block_index::BlockIndex;
pub use blocks::BlockWork;
pub(crate) use blocks::slices;
// The cost model orders tiles as the lists do.
#[doc(hidden)]
pub use columns::{columns_held, columns_together, group_of_columns};
#[doc(hidden)]
pub use costs::{Costs, record_tile, union_tile};
#[doc(hidden)]
pub use long_rows::{divide_k, longest_part};
pub use sddmm::SddmmWork;
use shared_columns::SharedWork;
pub use similar_rows::group_similar_rows;
pub use split_k::{Divisible, Role, split};
use split_rows::RowTile;
use stage_metadata::StageMetadata;

use crate::Structure;

/// The work of one launch as its kernel reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkLists {
    /// What [`Plan::launch`] takes as its grid.
    pub grid: [u32; 2],
    /// The kernel's `work_head`; empty for a kernel with one CTA for each stored block.
    pub heads: Vec<u32>,
    /// The kernel's `work`.
    pub tiles: Vec<u32>,
    /// Bytes of the kernel's `workspace`, zero before the first launch and again after each; 0 for none.
    pub workspace: usize,
    /// The kernel's `packed`, its stage metadata, or its `columns`, the unions of block columns. Empty for a kernel that reads the pattern as it is stored.
    pub stage_metadata: Vec<u32>,
}

impl WorkLists {
    /// Lists the work of a kernel on a pattern and a dense factor of `n` columns (of `n` rows where B is sparse), for
    /// at most `clusters` clusters at a time. Empty for an attention, whose lists are made of a mask: `crate::attention`.
    pub fn new(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> Self {
        match plan.tile_scheduler() {
            TileScheduler::Static => {
                let work = WorkPlan::new(plan, structure, n, clusters);
                let heads = work.heads(BlockIndex::new(plan, structure));
                let workspace = work.workspace(plan);
                Self { grid: [work.clusters(), 1], heads, tiles: work.words(), workspace, ..Self::default() }
            }
            TileScheduler::StageMetadata(packing) => {
                let index = BlockIndex::new(plan, structure);
                let metadata = StageMetadata::new(&packing, &index);
                let work = WorkPlan::of_records(plan, &packing, &metadata, structure, n, clusters);
                Self {
                    grid: [work.clusters(), 1],
                    heads: work.totals(),
                    tiles: work.words(),
                    workspace: work.workspace(plan),
                    stage_metadata: metadata.words,
                }
            }
            TileScheduler::SharedColumns(form) => {
                let work = SharedWork::new(plan, &form, structure, n, clusters);
                Self {
                    grid: [work.ctas(), 1],
                    heads: work.heads(),
                    tiles: work.words(),
                    workspace: work.workspace(plan),
                    stage_metadata: work.into_columns(),
                }
            }
            TileScheduler::Attention => Self::default(),
            TileScheduler::CtaPerBlock => {
                let work = BlockWork::new(plan, structure, n);
                let grid = [work.tiles.len() as u32, work.columns];
                Self { grid, tiles: work.words(), ..Self::default() }
            }
            TileScheduler::Sddmm => match SddmmWork::new(plan, structure, n, clusters) {
                Some(work) => Self {
                    grid: [work.ctas(), 1],
                    heads: work.heads(),
                    tiles: work.words(),
                    workspace: work.workspace(),
                    ..Self::default()
                },
                None => Self::default(),
            },
        }
    }

    /// Whether there is nothing to launch: no stored block, for an SDDMM or a kernel with one CTA for each stored
    /// block.
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }
}

/// One output tile of a cluster: the four 32-bit words that the kernel loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTile {
    /// First row of C, in elements; where B is sparse, first column.
    pub c_row: u32,
    /// First column of C, in elements; where B is sparse, first row.
    pub c_col: u32,
    /// First row of A's values seen as an `[nnzb * bm, bk]` matrix: the row's first block, plus the tile's
    /// offset inside a block. Where the sparse operand is read by block columns, its blocks are in the order of the
    /// transposed index, `bk` rows each.
    pub a_row: u32,
    /// Stored blocks of the block row; 0 writes zeros. With stage metadata, `a_row` is the first record and this is the
    /// number of records.
    pub blocks: u32,
    /// How much of K it is, of a kernel with `split`.
    pub role: Role,
}

impl WorkTile {
    fn words(&self) -> [u32; 4] {
        [self.c_row, self.c_col, self.a_row, self.blocks]
    }

    /// As kernels with `split` read it.
    fn split_words(&self) -> [u32; 8] {
        let ([c_row, c_col, a_row, blocks], [parts, place]) = (self.words(), self.role.words());
        [c_row, c_col, a_row, blocks, parts, place, 0, 0]
    }
}

/// The work of every cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkPlan {
    /// The tiles of cluster `c` are `tiles[offsets[c]..offsets[c + 1]]`.
    pub offsets: Vec<u32>,
    /// All tiles, by cluster, in the order in which each cluster takes them.
    pub tiles: Vec<WorkTile>,
    /// Places in the workspace, of a kernel with `split`; `None` for another one.
    places: Option<u32>,
}

/// The tiles of C: those of the first column with their costs, and the same under every other column.
struct Tiles {
    rows: Vec<WorkTile>,
    costs: Vec<u64>,
    /// First columns of C of the columns of tiles, in elements.
    columns: Vec<u32>,
    group: usize,
}

impl Tiles {
    /// Those of a product: `rows` are the tiles of the first column with their costs, `n` is the extent of C along the columns of
    /// tiles.
    fn new(plan: &Plan, structure: &Structure, rows: Vec<(WorkTile, u64)>, (n, clusters): (usize, u32)) -> Self {
        let (rows, costs) = rows.into_iter().unzip();
        let group = columns_together(plan, &BlockIndex::new(plan, structure), n, clusters as usize);
        Self { rows, costs, columns: tile_columns(&plan.cluster_tile(), n), group }
    }

    fn grid(&self) -> TileGrid<'_> {
        TileGrid { costs: &self.costs, columns: self.columns.len(), group: self.group }
    }

    fn at(&self, place: Place) -> WorkTile {
        WorkTile { c_col: self.columns[place.column as usize], ..self.rows[place.row as usize] }
    }

    /// All tiles with their costs, in the order in which they are assigned.
    fn in_order(&self) -> impl Iterator<Item = (WorkTile, u64)> + '_ {
        let grid = self.grid();
        grid.order().map(move |place| (self.at(place), grid.cost(&place)))
    }

    /// Assigns them to at most `clusters` clusters, each with its list.
    fn lists(&self, plan: &Plan, clusters: u32) -> Vec<Vec<WorkTile>> {
        let clusters = (clusters as usize).min(self.rows.len() * self.columns.len()).max(1);
        lists_of(self.grid().assign(policy(plan), clusters), |place| self.at(place))
    }
}

/// What becomes of all tiles of lists.
fn lists_of<T, U>(lists: Vec<Vec<T>>, of: impl Fn(T) -> U) -> Vec<Vec<U>> {
    lists.into_iter().map(|list| list.into_iter().map(&of).collect()).collect()
}

/// How the tiles of a product are assigned.
fn policy(plan: &Plan) -> Policy {
    match plan.spec().schedule {
        Some(Schedule::Strided) => Policy::RoundRobin,
        Some(Schedule::Balanced) | None => Policy::Balanced,
    }
}

impl WorkPlan {
    /// Assigns the tiles of C to at most `clusters` clusters.
    ///
    /// `n` is the extent of C along the dense factor, in elements: N, or M where B is sparse.
    pub fn new(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> Self {
        let index = BlockIndex::new(plan, structure);
        let rows = tile_rows(&plan.cluster_tile(), index.row_ptr, index.rows);
        let divisible = |form: &SplitForm, tile| RowTile::of_blocks(plan, form, tile);
        Self::of_rows(plan, structure, rows, (n, clusters), divisible)
    }

    /// The same of tiles whose stages metadata describes.
    fn of_records(
        plan: &Plan,
        packing: &StagePacking,
        metadata: &StageMetadata,
        structure: &Structure,
        n: usize,
        clusters: u32,
    ) -> Self {
        let rows = metadata.tiles(packing, BlockIndex::new(plan, structure).rows);
        let divisible = |form: &SplitForm, tile| RowTile::of_records(packing, form, metadata, tile);
        Self::of_rows(plan, structure, rows, (n, clusters), divisible)
    }

    /// Assigns `rows`, the tiles of the first column with their costs, and the same of every other column.
    fn of_rows(
        plan: &Plan,
        structure: &Structure,
        rows: Vec<(WorkTile, u64)>,
        (n, clusters): (usize, u32),
        divisible: impl Fn(&SplitForm, BatchTile) -> RowTile,
    ) -> Self {
        let tiles = Tiles::new(plan, structure, rows, (n, clusters));
        match plan.split_form() {
            Some(form) => split_rows::assign(plan, structure, &tiles, clusters, |tile| divisible(&form, tile)),
            None => Self::from_lists(tiles.lists(plan, clusters), None),
        }
    }

    /// The kernel's `work_head`: the number of tiles of every cluster, then for every cluster the first 32 block
    /// columns of its first tile, so that no cluster waits for one index to find another.
    pub fn heads<'a>(&self, index: impl Into<BlockIndex<'a>>) -> Vec<u32> {
        let index = index.into();
        heads(self.lists(), |tile| {
            let stored = &index.col_idx[tile.a_row as usize / index.block.0..][..tile.blocks as usize];
            stored.iter().map(|column| column.cast_unsigned())
        })
    }

    /// The `work_head` of a kernel with stage metadata: tiles and stages of every cluster.
    fn totals(&self) -> Vec<u32> {
        let totals = |list: &[WorkTile]| [list.len() as u32, list.iter().map(|tile| tile.blocks).sum()];
        self.lists().flat_map(totals).collect()
    }

    /// The tiles of each cluster, in the order in which it takes them.
    pub fn lists(&self) -> impl Iterator<Item = &[WorkTile]> + Clone {
        self.offsets.windows(2).map(|ends| &self.tiles[ends[0] as usize..ends[1] as usize])
    }

    /// The kernel's `work`: tile `i` of cluster `c` is words `4 * (i * clusters + c)` and the three after it, so
    /// that a cluster finds its first tile without looking anything up; of a kernel with `split`, eight words. Short lists
    /// are padded with zeros.
    pub fn words(&self) -> Vec<u32> {
        match self.places {
            Some(_) => in_rows(self.lists(), WorkTile::split_words),
            None => in_rows(self.lists(), WorkTile::words),
        }
    }

    /// Bytes of the kernel's workspace.
    fn workspace(&self, plan: &Plan) -> usize {
        let place = plan.split_form().map_or(0, |form| form.partial_bytes);
        self.places.unwrap_or(0) as usize * place as usize
    }

    /// Clusters that the plan was made for.
    pub fn clusters(&self) -> u32 {
        self.offsets.len() as u32 - 1
    }

    fn from_lists(lists: Vec<Vec<WorkTile>>, places: Option<u32>) -> Self {
        let mut offsets = vec![0];
        let mut tiles = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        for list in lists {
            tiles.extend(list);
            offsets.push(tiles.len() as u32);
        }
        Self { offsets, tiles, places }
    }
}

/// The heads of lists as kernels read them: how many tiles each has, then for each the first columns of its first tile.
fn heads<'t, T: 't, C: IntoIterator<Item = u32>>(
    lists: impl Iterator<Item = &'t [T]> + Clone,
    columns: impl Fn(&'t T) -> C,
) -> Vec<u32> {
    let mut words: Vec<u32> = lists.clone().map(|list| list.len() as u32).collect();
    for list in lists {
        let columns = list.first().map(&columns).into_iter().flatten();
        words.extend(columns.chain(std::iter::repeat(0)).take(TileScheduler::HEAD_COLUMNS as usize));
    }
    words
}

/// The words of lists of tiles as kernels read them: tile `i` of each list, then tile `i + 1` of each. Short lists are padded
/// with zeros.
fn in_rows<'t, T: 't, W: AsRef<[u32]>>(
    lists: impl Iterator<Item = &'t [T]> + Clone,
    of: impl Fn(&'t T) -> W,
) -> Vec<u32> {
    let (count, rows) = (lists.clone().count(), lists.clone().map(<[T]>::len).max().unwrap_or(0));
    let size = lists.clone().flatten().next().map_or(0, |tile| of(tile).as_ref().len());
    let mut words = vec![0; size * rows * count];
    for (c, list) in lists.enumerate() {
        for (i, tile) in list.iter().enumerate() {
            words[size * (i * count + c)..][..size].copy_from_slice(of(tile).as_ref());
        }
    }
    words
}

/// First columns of the tiles along N.
fn tile_columns(cluster_tile: &ClusterTile, n: usize) -> Vec<u32> {
    (0..n as u32).step_by(cluster_tile.columns as usize).collect()
}

/// The tiles of the first column, one a row slice, with their costs.
fn tile_rows(cluster_tile: &ClusterTile, row_ptr: &[i32], m: usize) -> Vec<(WorkTile, u64)> {
    let mut tiles = vec![];
    for (block_row, ends) in row_ptr.windows(2).enumerate() {
        let (first, blocks) = (ends[0] as u32, (ends[1] - ends[0]) as u32);
        for slice in (0..cluster_tile.block_rows).step_by(cluster_tile.rows as usize) {
            let c_row = block_row as u32 * cluster_tile.block_rows + slice;
            if (c_row as usize) < m {
                let a_row = first * cluster_tile.block_rows + slice;
                let tile = WorkTile { c_row, c_col: 0, a_row, blocks, role: Role::Whole };
                tiles.push((tile, cluster_tile.cost(blocks.into())));
            }
        }
    }
    tiles
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod recorded;
