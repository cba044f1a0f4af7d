//! Everything the templates name.

use serde::Serialize;

use super::super::plan::{KSlice, Memory, Store, SwapAbPlan, Tile};
use super::batch::Batch;
use super::epilogue::Epilogue;
use super::fused::{Emitter, Fused};
use super::mainloop::Mainloop;
use super::producer::Producer;
use super::registers::Sums;
use super::staging::Staging;

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
    /// Bytes of a work tile's entry in the list.
    work_tile_bytes: u32,
    ring: Ring,
    producer: Producer,
    sums: Sums,
    mainloop: Mainloop,
    staging: Staging,
    epilogue: Epilogue,
    /// The spec's epilogue.
    fused: Option<Fused>,
    /// A kernel for a list of problems.
    batch: Option<Batch>,
    /// C is written by threads, not by TMA.
    permuted: bool,
}

/// The ring in the units of descriptors, and its barriers.
#[derive(Clone, Debug, Serialize)]
struct Ring {
    stage_units: u32,
    b_panel_units: u32,
    block_units: u32,
    /// The last lane that has a block.
    last_lane: u32,
    barriers: Vec<u32>,
    /// Those of a full operand.
    tile_barriers: Vec<u32>,
}

impl Ring {
    fn new(memory: &Memory) -> Self {
        Self {
            stage_units: memory.stage_bytes / 16,
            b_panel_units: memory.b_panel_bytes / 16,
            block_units: memory.block_bytes / 16,
            last_lane: memory.b_panels + memory.blocks - 1,
            barriers: (0..memory.stages).map(|stage| stage * 8).collect(),
            tile_barriers: (memory.tile_offset..memory.total).step_by(8).collect(),
        }
    }
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
            work_tile_bytes: if plan.spec.batch.is_on() { 32 } else { 16 },
            ring: Ring::new(&plan.memory),
            producer: Producer::new(plan),
            sums: Sums::new(plan),
            mainloop: Mainloop::new(plan),
            staging: Staging::new(plan),
            epilogue: Epilogue::new(plan, fused.as_ref()),
            fused: fused.map(|emitter| emitter.context()),
            batch: Batch::new(plan),
            permuted: plan.spec.permute.is_on(),
        }
    }
}
