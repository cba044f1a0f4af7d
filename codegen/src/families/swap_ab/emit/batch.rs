//! What a kernel does with a list of problems: each work tile has a problem, and so has each record that is on its way,
//! since producers are records ahead of the work tile that they load for.

use serde::Serialize;

use super::super::plan::SwapAbPlan;
use crate::hopper::problem_maps::{C, LAST, MAP};

/// The context of a kernel with `batch = on`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Batch {
    /// Bytes of a tensor map, and of all of a problem.
    map_bytes: u32,
    problem_bytes: u32,
    /// The maps of a record's problem, for the warp that loads B panels and for the one that loads blocks.
    b_panels: Vec<Map>,
    blocks: Vec<Map>,
    /// The map through which a complete tile is stored.
    result: Vec<Map>,
}

/// A register that takes a tensor map, and bytes to the map from the first one of its problem.
#[derive(Clone, Debug, Serialize)]
struct Map {
    register: &'static str,
    offset: u32,
}

impl Batch {
    /// None of a kernel for one product a launch.
    pub(super) fn new(plan: &SwapAbPlan) -> Option<Self> {
        let map = |register, place| Map { register, offset: MAP * place };
        let last = plan.k_slice.by_block.then(|| map("%rd_map_last", LAST));
        plan.spec.batch.is_on().then(|| Self {
            map_bytes: MAP,
            problem_bytes: MAP * plan.maps_of_a_problem(),
            b_panels: std::iter::once(map("%rd_map_dense", 1)).chain(last).collect(),
            blocks: vec![map("%rd_map_sparse", 0)],
            result: vec![map("%rd_map_out", C)],
        })
    }
}
