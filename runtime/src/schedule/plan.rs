//! The work plan of a product: the tiles of each cluster.

use bsr_codegen::{Plan, SplitForm, StagePacking};

use super::batch::BatchTile;
use super::block_index::BlockIndex;
use super::split_rows::{self, RowTile};
use super::stage_metadata::StageMetadata;
use super::tile::{WorkTile, heads, in_rows, tile_rows};
use super::tiles::Tiles;
use crate::Structure;

/// The work of every cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkPlan {
    /// The tiles of cluster `c` are `tiles[offsets[c]..offsets[c + 1]]`.
    pub offsets: Vec<u32>,
    /// All tiles, by cluster, in the order in which each cluster takes them.
    pub tiles: Vec<WorkTile>,
    /// Places in the workspace, of a kernel with `split`; `None` for another one.
    pub(super) places: Option<u32>,
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
    pub(super) fn of_records(
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
    pub(super) fn of_rows(
        plan: &Plan,
        structure: &Structure,
        rows: Vec<(WorkTile, u64)>,
        (n, clusters): (usize, u32),
        divisible: impl Fn(&SplitForm, BatchTile) -> RowTile,
    ) -> Self {
        let tiles = Tiles::new(plan, structure, rows, (n, clusters));
        match plan.split_form() {
            Some(form) => {
                let (lists, places) =
                    split_rows::assign(plan, structure, &tiles, clusters, |tile| divisible(&form, tile));
                Self::from_lists(lists, Some(places))
            }
            None => Self::from_lists(tiles.lists(plan, clusters), None),
        }
    }

    /// The tiles of each cluster as they are listed, none of them divided.
    pub(super) fn of_lists(lists: Vec<Vec<WorkTile>>) -> Self {
        Self::from_lists(lists, None)
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
    pub(super) fn totals(&self) -> Vec<u32> {
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
    pub(super) fn workspace(&self, plan: &Plan) -> usize {
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
