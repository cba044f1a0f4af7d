//! Everything the templates name.

use serde::Serialize;

use super::super::plan::SampledPlan;
use super::consumer::Consumer;
use super::producer::Producer;
use super::{batch, epilogue};

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    tile: Tile,
    roles: Roles,
    memory: Memory,
    item: Item,
    producer: Producer,
    consumer: Consumer,
    epilogue: epilogue::Context,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    cta_m: u32,
    cta_n: u32,
    wg_n: u32,
    slots: u32,
    slot: u32,
    k_step: u32,
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
    stages: u32,
    stage_bytes: u32,
    stage_units: u32,
    right_offset: u32,
    staging_offset: u32,
    items: u32,
    items_offset: u32,
    items_bytes: u32,
    items_end: u32,
    full_offset: u32,
    empty_offset: u32,
    empty_arrivals: u32,
    barriers: Vec<u32>,
    /// The barriers of the epilogue's full operand, from the full barriers on.
    tile_barriers: Vec<u32>,
}

#[derive(Clone, Debug, Serialize)]
struct Item {
    words: u32,
    bytes: u32,
    chunks: Vec<Chunk>,
    /// A kernel for a list of problems, and what it does with an item's.
    batch: bool,
    adopt_factors: Vec<String>,
    adopt_result: Vec<String>,
}

/// Words of an item that a warp copies at once, one a lane.
#[derive(Clone, Debug, Serialize)]
struct Chunk {
    register: String,
    offset: u32,
    /// Fewer than a warp has lanes: the last chunk.
    lanes: Option<u32>,
}

const WARP: u32 = 32;

impl Context {
    pub(super) fn new(plan: &SampledPlan) -> Self {
        let (t, m) = (&plan.tiling, &plan.memory);
        let epilogue = epilogue::Context::new(plan);
        Self {
            tile: Tile {
                cta_m: t.cta_m,
                cta_n: t.cta_n(),
                wg_n: t.wg_n(),
                slots: t.slots,
                slot: t.slot,
                k_step: plan.k_step(),
                accumulators: t.accumulators(),
            },
            roles: Roles {
                consumers: t.roles.consumers,
                producer_registers: t.roles.producer_registers,
                consumer_registers: t.roles.consumer_registers,
            },
            memory: Memory {
                stages: m.stages,
                stage_bytes: m.stage_bytes,
                stage_units: m.stage_bytes / 16,
                right_offset: m.right_offset,
                staging_offset: m.staging_offset,
                items: m.items,
                items_offset: m.items_offset,
                items_bytes: m.items * plan.item.bytes(),
                items_end: m.items_offset + m.items * plan.item.bytes(),
                full_offset: m.full_offset,
                empty_offset: m.empty_offset,
                empty_arrivals: m.empty_arrivals,
                barriers: (0..m.stages).map(|stage| stage * 8).collect(),
                tile_barriers: tile_barriers(plan),
            },
            item: item(plan),
            producer: Producer::new(plan),
            consumer: Consumer::new(plan, &epilogue.passes),
            epilogue,
        }
    }
}

fn tile_barriers(plan: &SampledPlan) -> Vec<u32> {
    let count = if plan.epilogue.has_tile { plan.tiling.roles.consumers } else { 0 };
    (0..count).map(|consumer| plan.memory.tile_offset - plan.memory.full_offset + 8 * consumer).collect()
}

fn item(plan: &SampledPlan) -> Item {
    let words = plan.item.words();
    let chunk = |index: u32| {
        let lanes = (words - index * WARP).min(WARP);
        Chunk { register: format!("%r_word{index}"), offset: index * WARP * 4, lanes: (lanes < WARP).then_some(lanes) }
    };
    Item {
        words,
        bytes: plan.item.bytes(),
        chunks: (0..words.div_ceil(WARP)).map(chunk).collect(),
        batch: plan.spec.batch.is_on(),
        adopt_factors: batch::adopt_factors(plan),
        adopt_result: batch::adopt_result(plan),
    }
}
