//! Everything the templates name.

use serde::Serialize;

use super::super::plan::SwapAbPlan;
use super::batch::Batch;
use super::consumer::Consumer;
use super::producer::Producer;
use super::store::Store;

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    tile: Tile,
    roles: Roles,
    memory: Memory,
    producer: Producer,
    consumer: Consumer,
    store: Store,
    /// Bytes of a work item.
    item_bytes: u32,
    /// A kernel for a list of problems.
    batch: Option<Batch>,
    /// C is written by threads, not by TMA.
    permuted: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    pack: u32,
    rows: u32,
    block_rows: u32,
    slices: u32,
    cta_n: u32,
    columns: u32,
    accumulators: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Roles {
    consumers: u32,
    producer_registers: u32,
    consumer_registers: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    slabs: u32,
    blocks: u32,
    slab_bytes: u32,
    slab_units: u32,
    block_bytes: u32,
    block_units: u32,
    blocks_offset: u32,
    blocks_end: u32,
    stages: u32,
    stage_bytes: u32,
    stage_units: u32,
    staging_offset: u32,
    notes_offset: u32,
    full_offset: u32,
    empty_offset: u32,
    empty_arrivals: u32,
    barriers: Vec<u32>,
    /// Those of a full operand.
    tile_barriers: Vec<u32>,
}

impl Context {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        let (t, m) = (&plan.tile, &plan.memory);
        Self {
            tile: Tile {
                pack: t.pack,
                rows: t.rows,
                block_rows: plan.view.rows,
                slices: t.slices,
                cta_n: t.cta_n,
                columns: t.groups * 64,
                accumulators: t.accumulators(),
            },
            roles: Roles {
                consumers: t.roles.consumers,
                producer_registers: t.roles.producer_registers,
                consumer_registers: t.roles.consumer_registers,
            },
            memory: Memory {
                slabs: m.b_panels,
                blocks: m.blocks,
                slab_bytes: m.b_panel_bytes,
                slab_units: m.b_panel_bytes / 16,
                block_bytes: m.block_bytes,
                block_units: m.block_bytes / 16,
                blocks_offset: m.blocks_offset,
                blocks_end: m.b_panels + m.blocks,
                stages: m.stages,
                stage_bytes: m.stage_bytes,
                stage_units: m.stage_bytes / 16,
                staging_offset: m.staging_offset,
                notes_offset: m.metadata_offset,
                full_offset: m.full_offset,
                empty_offset: m.empty_offset,
                empty_arrivals: m.empty_arrivals,
                barriers: (0..m.stages).map(|stage| stage * 8).collect(),
                tile_barriers: (m.tile_offset..m.total).step_by(8).collect(),
            },
            producer: Producer::new(plan),
            consumer: Consumer::new(plan),
            store: Store::new(plan),
            item_bytes: if plan.spec.batch.is_on() { 32 } else { 16 },
            batch: Batch::new(plan),
            permuted: plan.spec.permute.is_on(),
        }
    }
}
