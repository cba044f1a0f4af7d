//! Split K for tiles of block rows: several clusters walk parts of one tile and one of them stores it.

use bsr_codegen::{Plan, Schedule as Order, SplitForm, SplitK, StagePacking};

use super::assign::tile_order;
use super::split_k::{self, Costs, Divisible, Role};
use super::{
    BatchTile, BlockIndex, CostedTile, StageMetadata, WorkPlan, WorkTile, columns_held, divide_long, group, lists,
    longest_part, tile_columns,
};
use crate::Structure;

/// The cost of a stage; costs of what moves fewer bytes are fractions of it.
const STAGE: u64 = 20;
/// Stages of the smallest part.
const LEAST_STAGES: u32 = 4;

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
        let (steps, a_unit) = cluster_tile.stages_per_block;
        // Sums in the workspace take as long as the loads of as many bytes.
        let exchange = STAGE + STAGE * u64::from(form.partial_bytes) / u64::from(form.stage_bytes.max(1));
        let costs = Costs {
            unit: STAGE * u64::from(steps),
            tile: STAGE,
            contribute: exchange,
            collect: exchange,
            least: LEAST_STAGES.div_ceil(steps),
        };
        // Of a batch that reads block columns, `a_row` is within the block.
        let is_within = plan.spec().batch.is_on() && plan.reads_block_columns();
        let a_row = if is_within { 0 } else { cluster_tile.block_rows };
        Self { tile, form: RowForm { a_row, first: 1, a_unit }, costs }
    }

    /// A tile of records of stage metadata.
    pub(super) fn of_records(
        packing: &StagePacking,
        form: &SplitForm,
        metadata: &StageMetadata,
        tile: BatchTile,
    ) -> Self {
        let WorkTile { a_row, blocks, .. } = tile.within;
        let costs = record_costs(packing, form, metadata.bytes(a_row, a_row + blocks), blocks);
        Self { tile, form: RowForm { a_row: 1, first: 0, a_unit: 1 }, costs }
    }
}

/// What the parts of a tile cost that loads so many bytes in so many records of stage metadata: as many bytes.
pub fn record_costs(packing: &StagePacking, form: &SplitForm, bytes: u64, records: u32) -> Costs {
    let unit = (bytes / u64::from(records.max(1))).max(1);
    let exchange = unit + u64::from(form.partial_bytes);
    let tile = u64::from(packing.b_panel_bytes);
    Costs { unit, tile, contribute: exchange, collect: exchange, least: LEAST_STAGES }
}

/// Assigns the tiles of `rows` under every column of tiles to at most `clusters` clusters, and divides the K of those of
/// which the spec wants it.
pub(super) fn assign(
    plan: &Plan,
    structure: &Structure,
    n: usize,
    clusters: u32,
    rows: &[CostedTile],
    divisible: impl Fn(BatchTile) -> RowTile,
) -> WorkPlan {
    let columns = tile_columns(&plan.cluster_tile(), n);
    let divisible = |tile: WorkTile| divisible(BatchTile::alone(tile));
    let group = group(plan, structure.stored(), BlockIndex::new(plan, structure).cols);
    let all = tile_order(rows, &columns, group).map(|costed| divisible(costed.tile));
    let whole = || {
        let lists = lists(plan, structure, rows, &columns, clusters);
        lists.into_iter().map(|list| list.into_iter().map(divisible).collect()).collect()
    };
    let column = || rows.iter().map(|costed| divisible(costed.tile)).collect();
    let (lists, places) = match long(plan, structure, column, columns.len(), clusters) {
        Some(limit) => {
            let (lists, places) = divide_long(&all.collect::<Vec<_>>(), limit, clusters as usize);
            (lists.into_iter().map(|list| list.into_iter().map(|tile| tile.tile).collect()).collect(), places)
        }
        None => divided(plan.spec().split, all, whole, clusters),
    };
    let mut lists: Vec<Vec<WorkTile>> =
        lists.into_iter().map(|list| list.into_iter().map(|tile| tile.within).collect()).collect();
    if lists.is_empty() {
        lists.push(vec![]);
    }
    WorkPlan::from_lists(lists, Some(places))
}

/// How long parts of the tiles of a column of C may take, of which there are so many, where some tiles take longer and are to be
/// divided.
pub(super) fn long<T: Divisible>(
    plan: &Plan,
    structure: &Structure,
    column: impl FnOnce() -> Vec<T>,
    columns: usize,
    clusters: u32,
) -> Option<u64> {
    let spec = plan.spec();
    if spec.split != SplitK::Long || spec.schedule == Some(Order::Strided) {
        return None;
    }
    let held = columns_held(plan, BlockIndex::new(plan, structure).cols);
    longest_part(&column(), columns, held, clusters as usize)
}

/// Divides `all` tiles in their order into parts, or moves parts of some tiles of the lists that `whole` makes. The lists, and
/// places in the workspace.
pub(super) fn divided(
    split: SplitK,
    all: impl Iterator<Item = RowTile>,
    whole: impl FnOnce() -> Vec<Vec<RowTile>>,
    clusters: u32,
) -> (Vec<Vec<BatchTile>>, u32) {
    let clusters = clusters.max(1) as usize;
    let (lists, places) = match split {
        SplitK::Parts(parts) => split_k::divide(all, parts, clusters),
        SplitK::Auto | SplitK::Long | SplitK::Off => {
            let mut lists = whole();
            lists.resize(lists.len().max(clusters), vec![]);
            split_k::split(lists)
        }
    };
    (lists.into_iter().map(|list| list.into_iter().map(|tile| tile.tile).collect()).collect(), places)
}
