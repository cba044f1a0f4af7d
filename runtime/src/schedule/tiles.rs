//! All tiles of a product, and the order in which they are assigned.

use bsr_codegen::{ClusterTile, Plan, Schedule};

use super::assign::{Place, Policy, TileGrid};
use super::block_index::BlockIndex;
use super::columns::columns_together;
use super::tile::{WorkTile, lists_of};
use crate::Structure;

/// The tiles of C: those of the first column with their costs, and the same under every other column.
pub(super) struct Tiles {
    pub(super) rows: Vec<WorkTile>,
    costs: Vec<u64>,
    /// First columns of C of the columns of tiles, in elements.
    pub(super) columns: Vec<u32>,
    group: usize,
}

impl Tiles {
    /// Those of a product: `rows` are the tiles of the first column with their costs, `n` is the extent of C along the columns of
    /// tiles.
    pub(super) fn new(
        plan: &Plan,
        structure: &Structure,
        rows: Vec<(WorkTile, u64)>,
        (n, clusters): (usize, u32),
    ) -> Self {
        let (rows, costs) = rows.into_iter().unzip();
        let group = columns_together(plan, &BlockIndex::new(plan, structure), n, clusters as usize);
        Self { rows, costs, columns: tile_columns(&plan.cluster_tile(), n), group }
    }

    fn grid(&self) -> TileGrid<'_> {
        TileGrid { costs: &self.costs, columns: self.columns.len(), group: self.group }
    }

    fn at(&self, place: Place) -> WorkTile {
        let tile = self.rows[place.row as usize];
        WorkTile { c_col: tile.c_col + self.columns[place.column as usize], ..tile }
    }

    /// All tiles with their costs, in the order in which they are assigned.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (WorkTile, u64)> + '_ {
        let grid = self.grid();
        grid.order().map(move |place| (self.at(place), grid.cost(&place)))
    }

    /// Assigns them to at most `clusters` clusters, each with its list.
    pub(super) fn lists(&self, plan: &Plan, clusters: u32) -> Vec<Vec<WorkTile>> {
        let clusters = (clusters as usize).min(self.rows.len() * self.columns.len()).max(1);
        lists_of(self.grid().assign(policy(plan), clusters), |place| self.at(place))
    }
}

/// How the tiles of a product are assigned.
pub(super) fn policy(plan: &Plan) -> Policy {
    match plan.spec().schedule {
        Some(Schedule::Strided) => Policy::RoundRobin,
        Some(Schedule::Balanced) | None => Policy::Balanced,
    }
}

/// First columns of the tiles along N.
pub(super) fn tile_columns(cluster_tile: &ClusterTile, n: usize) -> Vec<u32> {
    (0..n as u32).step_by(cluster_tile.columns as usize).collect()
}
