//! The work tiles that a kernel reads: their layout in memory, and what a list of problems adds to them.

use serde::Serialize;

use super::super::plan::BlockRowsPlan;
use crate::hopper::problem_maps::{C, LAST, MAP};

/// The layout of work tiles in memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct WorkTile {
    bytes: u32,
    /// Where it says how much of K it is.
    role: u32,
    /// Rows of a block: of a kernel for one product they lead from a tile's row to its first block.
    block_rows: u32,
}

impl WorkTile {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let (words, role) = plan.work_tile_words();
        Self { bytes: 4 * words, role: 4 * role, block_rows: plan.view.rows }
    }
}

/// The address of the tensor maps of a tile's problem.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Batch {
    /// Bytes of a map, and of a problem's maps.
    map: u32,
    maps: u32,
    /// Bytes to C's map.
    c: u32,
    /// Bytes to the map of what K leaves beyond whole blocks, if there is one.
    last: Option<u32>,
}

impl Batch {
    /// None of a kernel for one product a launch.
    pub(super) fn new(plan: &BlockRowsPlan) -> Option<Self> {
        plan.spec.batch.is_on().then(|| Self {
            map: MAP,
            maps: MAP * plan.maps_of_a_problem(),
            c: MAP * C,
            last: plan.b.by_block.then_some(MAP * LAST),
        })
    }
}
