//! Everything the templates name.

use serde::Serialize;

use super::super::plan::{KSlice, Memory, Store, SwapAbPlan, Tile};
use super::batch::Batch;
use super::epilogue::Epilogue;
use super::fused::{Emitter, Fused};
use super::mainloop::{self, ClearedSums, Mainloop};
use super::producer::Producer;
use super::staging::Staging;
use crate::hopper::ring::RingContext;
use crate::hopper::split_k::{Exchange, Workspace};

/// Arrivals that complete a full barrier: a lane of the warp that loads B panels, and all of the one that loads blocks.
const FULL_ARRIVALS: u32 = 33;

/// The whole context of one body: numbers of the plan as they are, and what is made of them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context<'p> {
    tile: &'p Tile,
    k_slice: &'p KSlice,
    memory: &'p Memory,
    store: &'p Store,
    /// Rows of a sparsity block.
    block_rows: u32,
    /// Dense columns of a consumer.
    columns: u32,
    work_tile: WorkTile,
    ring: RingContext,
    units: StageUnits,
    producer: Producer,
    sums: ClearedSums,
    mainloop: Mainloop,
    staging: Staging,
    epilogue: Epilogue,
    /// The spec's epilogue.
    fused: Option<Fused>,
    /// A kernel for a list of problems.
    batch: Option<Batch>,
    /// C is written by threads, not by TMA.
    permuted: bool,
    /// CTAs share the K of a tile: the workspace, and the exchange of partials.
    workspace: Option<Workspace>,
    exchange: Option<Exchange>,
}

/// The layout of work tiles in memory.
#[derive(Clone, Debug, Serialize)]
struct WorkTile {
    bytes: u32,
    /// Where it says how much of K it is.
    role: u32,
}

/// What a stage holds, in the units of descriptors.
#[derive(Clone, Debug, Serialize)]
struct StageUnits {
    b_panel: u32,
    block: u32,
    /// The last lane that has a block.
    last_lane: u32,
}

impl<'p> Context<'p> {
    pub(super) fn new(plan: &'p SwapAbPlan) -> Self {
        let fused = Emitter::new(plan);
        Self {
            tile: &plan.tile,
            k_slice: &plan.k_slice,
            memory: &plan.memory,
            store: &plan.store,
            block_rows: plan.view.rows,
            columns: plan.tile.columns(),
            work_tile: WorkTile::new(plan),
            ring: plan.memory.ring.context(FULL_ARRIVALS, plan.operand_barriers()),
            units: StageUnits {
                b_panel: plan.memory.b_panel_bytes / 16,
                block: plan.memory.block_bytes / 16,
                last_lane: plan.memory.b_panels + plan.memory.blocks - 1,
            },
            producer: Producer::new(plan),
            sums: ClearedSums::new(plan),
            mainloop: Mainloop::new(plan),
            staging: Staging::new(plan),
            epilogue: Epilogue::new(plan, fused.as_ref()),
            fused: fused.map(|emitter| emitter.context()),
            batch: Batch::new(plan),
            permuted: plan.spec.permute.is_on(),
            workspace: plan.workspace(),
            exchange: mainloop::exchange(plan),
        }
    }
}

impl WorkTile {
    fn new(plan: &SwapAbPlan) -> Self {
        let (words, role) = plan.work_tile_words();
        Self { bytes: 4 * words, role: 4 * role }
    }
}
