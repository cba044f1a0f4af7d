//! Split K for tiles of block rows: several clusters walk parts of one block row and one of them stores the tile.

use bsr_codegen::{Plan, SplitForm, SplitK};

use super::assign::tile_order;
use super::split_k::{self, Costs, Divisible, Role};
use super::{BlockIndex, CostedTile, WorkPlan, WorkTile, group, lists, tile_columns};
use crate::Structure;

/// The cost of a stage; costs of what moves fewer bytes are fractions of it.
const STAGE: u64 = 20;
/// Stages of the smallest part.
const LEAST_STAGES: u32 = 4;

/// A work tile, and how its K can be divided.
#[derive(Clone, Debug)]
struct RowTile {
    tile: WorkTile,
    /// Rows of A's values that a block takes.
    block_rows: u32,
    /// Stored blocks that a stage gathers.
    blocks_a_unit: u32,
    costs: Costs,
}

impl Divisible for RowTile {
    fn units(&self) -> u32 {
        self.tile.blocks.div_ceil(self.blocks_a_unit)
    }

    fn costs(&self) -> Costs {
        self.costs
    }

    fn role(&self) -> Role {
        self.tile.role
    }

    fn part(&self, first: u32, units: u32, role: Role) -> Self {
        let skipped = first * self.blocks_a_unit;
        let blocks = (units * self.blocks_a_unit).min(self.tile.blocks - skipped);
        let a_row = self.tile.a_row + skipped * self.block_rows;
        Self { tile: WorkTile { a_row, blocks, role, ..self.tile }, ..*self }
    }
}

/// Assigns the tiles of `rows` under every column of tiles to at most `clusters` clusters, and divides the K of those of
/// which the spec wants it.
pub(super) fn assign(
    plan: &Plan,
    form: &SplitForm,
    structure: &Structure,
    n: usize,
    clusters: u32,
    rows: &[CostedTile],
) -> WorkPlan {
    let columns = tile_columns(&plan.cluster_tile(), n);
    let divisible = |tile: WorkTile| row_tile(plan, form, tile);
    let (lists, places) = match plan.spec().split {
        SplitK::Parts(parts) => {
            let group = group(plan, structure.stored(), BlockIndex::new(plan, structure).cols);
            let tiles = tile_order(rows, &columns, group).map(|costed| divisible(costed.tile));
            split_k::divide(tiles, parts, clusters.max(1) as usize)
        }
        SplitK::Auto | SplitK::Off => {
            let lists = lists(plan, structure, rows, &columns, clusters);
            let mut lists: Vec<Vec<RowTile>> =
                lists.into_iter().map(|list| list.into_iter().map(divisible).collect()).collect();
            lists.resize(lists.len().max(clusters as usize), vec![]);
            split_k::split(lists)
        }
    };
    let mut lists: Vec<Vec<WorkTile>> =
        lists.into_iter().map(|list| list.into_iter().map(|tile| tile.tile).collect()).collect();
    if lists.is_empty() {
        lists.push(vec![]);
    }
    WorkPlan::from_lists(lists, Some(places))
}

fn row_tile(plan: &Plan, form: &SplitForm, tile: WorkTile) -> RowTile {
    let cluster_tile = plan.cluster_tile();
    let (steps, blocks_a_unit) = cluster_tile.stages_per_block;
    // Sums in the workspace take as long as the loads of as many bytes.
    let exchange = STAGE + STAGE * u64::from(form.partial_bytes) / u64::from(form.stage_bytes.max(1));
    let costs = Costs {
        unit: STAGE * u64::from(steps),
        tile: STAGE,
        contribute: exchange,
        collect: exchange,
        least: LEAST_STAGES.div_ceil(steps),
    };
    RowTile { tile, block_rows: cluster_tile.block_rows, blocks_a_unit, costs }
}
