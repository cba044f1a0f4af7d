//! Work plans, one for each pattern: which cluster computes which tiles of C, in which order.
//!
//! Most kernels are persistent: as many clusters as fit the device are launched, and each computes the tiles of its own
//! list. This is a static tile scheduler. The lists are made on the host from the row lengths of the pattern, so that
//! clusters finish together however uneven the rows are, and so that concurrent tiles read the same columns of B from
//! L2. A kernel with one CTA for each stored block gets a list of blocks instead, and one whose threads find the blocks of
//! their row by themselves gets the pointers of block rows.

mod assign;
mod batch;
mod block_index;
mod blocks;
mod columns;
mod costs;
mod lanes;
mod long_rows;
mod pairs;
mod plan;
mod sddmm;
mod shared_columns;
mod shared_pairs;
mod similar_rows;
mod split_k;
mod split_rows;
mod stage_metadata;
mod tile;
mod tiles;
mod waves;

use bsr_codegen::{IndexWidth, Plan, TileScheduler};

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
pub use costs::{Costs, pairs_tile, record_tile, union_tile};
// The cost model prefers the groups of threads that the solvers have.
#[doc(hidden)]
pub use lanes::{lanes_of_row, threads_of_row};
#[doc(hidden)]
pub use long_rows::{divide_k, longest_part};
pub(crate) use pairs::columns_of_wave;
// The cost model lists the tiles of pairs of blocks as the lists do.
#[doc(hidden)]
pub use pairs::places as places_of_pairs;
pub use plan::WorkPlan;
pub use sddmm::SddmmWork;
use shared_columns::SharedWork;
pub use similar_rows::group_similar_rows;
pub use split_k::{Divisible, Role, split};
use stage_metadata::StageMetadata;
pub use tile::WorkTile;
#[doc(hidden)]
pub use waves::assign as in_waves;

use crate::Structure;

/// The work of one launch as its kernel reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkLists {
    /// What [`Plan::launch`] takes as its grid.
    pub grid: [u32; 2],
    /// The kernel's `work_head`; empty for a kernel whose grid has no lists.
    pub heads: Vec<u32>,
    /// The kernel's `work`, or its `row_ptr`.
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
            // Those of a mask, and of two patterns: `of_pairs`.
            TileScheduler::Attention | TileScheduler::SharedPairs(_) => Self::default(),
            TileScheduler::BlockRows { rows } => {
                let columns = n.div_ceil(plan.cluster_tile().columns as usize);
                let row_ptr = BlockIndex::new(plan, structure).row_ptr;
                let grid = [(row_ptr.len() - 1).div_ceil(rows as usize), columns].map(|side| side as u32);
                Self { grid, tiles: pointers(row_ptr, plan.spec().row_ptr), ..Self::default() }
            }
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

/// Row pointers as a kernel reads them: the lower word of each first.
fn pointers(row_ptr: &[i64], width: IndexWidth) -> Vec<u32> {
    match width {
        IndexWidth::I32 => row_ptr.iter().map(|at| *at as u32).collect(),
        IndexWidth::I64 => row_ptr.iter().flat_map(|at| [*at as u32, (*at >> 32) as u32]).collect(),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod recorded;
