//! Split K for tiles of block rows: several clusters walk parts of one tile and one of them stores it.

use bsr_codegen::{Plan, SplitForm, StagePacking};

use super::batch::BatchTile;
use super::block_index::BlockIndex;
use super::columns::columns_held;
use super::costs::Costs;
use super::long_rows::{divide_k, longest_part};
use super::split_k::{Divisible, Role};
use super::stage_metadata::StageMetadata;
use super::tile::{WorkTile, lists_of};
use super::tiles::Tiles;
use crate::Structure;

/// A work tile, and how its K can be divided.
#[derive(Clone, Debug)]
pub(super) struct RowTile {
    pub(super) tile: BatchTile,
    form: RowForm,
    costs: Costs,
}

/// What a tile's K consists of.
#[derive(Clone, Copy, Debug)]
struct RowForm {
    /// What `a_row` grows by from a stored block, or record of stage metadata, to the next, and what `first` does.
    a_row: u32,
    first: u32,
    /// Stored blocks, or records, that a stage gathers.
    a_unit: u32,
}

impl Divisible for RowTile {
    fn units(&self) -> u32 {
        self.tile.within.blocks.div_ceil(self.form.a_unit)
    }

    fn costs(&self) -> Costs {
        self.costs
    }

    fn role(&self) -> Role {
        self.tile.within.role
    }

    fn part(&self, first: u32, units: u32, role: Role) -> Self {
        let (RowForm { a_row, first: by, a_unit }, BatchTile { within, .. }) = (self.form, self.tile);
        let skipped = first * a_unit;
        let blocks = (units * a_unit).min(within.blocks - skipped);
        let within = WorkTile { a_row: within.a_row + skipped * a_row, blocks, role, ..within };
        Self { tile: BatchTile { within, first: self.tile.first + skipped * by, ..self.tile }, ..*self }
    }
}

impl RowTile {
    /// A tile of stored blocks one after the other.
    pub(super) fn of_blocks(plan: &Plan, form: &SplitForm, tile: BatchTile) -> Self {
        let cluster_tile = plan.cluster_tile();
        // Of a batch that reads block columns, `a_row` is within the block.
        let is_within = plan.spec().batch.is_on() && plan.reads_block_columns();
        let a_row = if is_within { 0 } else { cluster_tile.block_rows };
        let form_of_rows = RowForm { a_row, first: 1, a_unit: cluster_tile.stages_per_block.1 };
        Self { tile, form: form_of_rows, costs: Costs::of_blocks(&cluster_tile, form) }
    }

    /// A tile of records of stage metadata.
    pub(super) fn of_records(
        packing: &StagePacking,
        form: &SplitForm,
        metadata: &StageMetadata,
        tile: BatchTile,
    ) -> Self {
        let WorkTile { a_row, blocks, .. } = tile.within;
        let costs = Costs::of_records(packing, form, metadata.bytes(a_row, a_row + blocks), blocks);
        Self { tile, form: RowForm { a_row: 1, first: 0, a_unit: 1 }, costs }
    }
}

/// Assigns tiles to at most `clusters` clusters, and divides the K of those of which the spec wants it: the tiles of each
/// cluster, and places in the workspace.
pub(super) fn assign(
    plan: &Plan,
    structure: &Structure,
    tiles: &Tiles,
    clusters: u32,
    divisible: impl Fn(BatchTile) -> RowTile,
) -> (Vec<Vec<WorkTile>>, u32) {
    let divisible = |tile: WorkTile| divisible(BatchTile::alone(tile));
    let held = columns_held(plan, BlockIndex::new(plan, structure).cols);
    let column = || tiles.rows.iter().copied().map(divisible).collect();
    let limit = longest_part(plan, column, tiles.columns.len(), held, clusters as usize);
    let all = tiles.in_order().map(|(tile, _)| divisible(tile));
    let whole = || lists_of(tiles.lists(plan, clusters), divisible);
    let (lists, places) = divide_k(plan.spec().split, limit, all, whole, clusters as usize);
    let mut lists = lists_of(lists, |tile| tile.tile.within);
    if lists.is_empty() {
        lists.push(vec![]);
    }
    (lists, places)
}
