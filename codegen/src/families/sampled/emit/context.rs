//! Everything the templates name.

use serde::Serialize;

use super::super::plan::SampledPlan;
use super::consumer::Consumer;
use super::fused::{Emitter, Fused};
use super::producer::Producer;
use super::staging::StagingContext;
use super::store::{self, Subtile};
use crate::hopper::problem_maps::{C, MAP};
use crate::hopper::ring::RingContext;
use crate::hopper::{Roles, store::Store};

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    tile: Tile,
    roles: Roles,
    ring: RingContext,
    memory: Memory,
    item: Item,
    /// The kernel is for a list of problems: its tensor maps lie in global memory.
    batch: Option<Batch>,
    producer: Producer,
    consumer: Consumer,
    /// The spec's epilogue.
    fused: Option<Fused>,
    staging: StagingContext,
    store: Store,
    subtiles: Vec<Subtile>,
    /// The epilogue is overlapped: registers of a packed copy of the tile.
    overlapped: bool,
    packed_registers: Vec<String>,
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
    dtype: String,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    right_offset: u32,
    staging_offset: u32,
    items: u32,
    items_offset: u32,
    items_bytes: u32,
    items_end: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Item {
    words: u32,
    bytes: u32,
    chunks: Vec<Chunk>,
}

/// Words of an item that a warp copies at once, one a lane.
#[derive(Clone, Debug, Serialize)]
struct Chunk {
    register: String,
    offset: u32,
    /// Fewer than a warp has lanes: the last chunk.
    lanes: Option<u32>,
}

/// Where an item names its problem, and where the tensor maps of a problem lie.
#[derive(Clone, Debug, Serialize)]
struct Batch {
    problem: u32,
    map: u32,
    maps: u32,
    c: u32,
}

const WARP: u32 = 32;
/// Maps of a problem: the left factor's, the right one's, C's.
const MAPS: u32 = 3;

impl Context {
    pub(super) fn new(plan: &SampledPlan) -> Self {
        let (t, m) = (&plan.tiling, &plan.memory);
        let subtiles = store::whole(plan);
        let operand = plan.epilogue.has_tile.then_some((m.tile_offset, t.roles.consumers));
        let problem = super::super::plan::Item::PROBLEM;
        Self {
            tile: Tile {
                cta_m: t.cta_m,
                cta_n: t.cta_n(),
                wg_n: t.wg_n(),
                slots: t.slots,
                slot: t.slot,
                k_step: plan.k_step(),
                accumulators: t.accumulators(),
                dtype: plan.spec.out.to_string(),
            },
            roles: t.roles,
            ring: m.ring.context(1, operand),
            memory: Memory {
                right_offset: m.right_offset,
                staging_offset: m.staging_offset,
                items: m.items,
                items_offset: m.items_offset,
                items_bytes: m.items * plan.item.bytes(),
                items_end: m.items_offset + m.items * plan.item.bytes(),
            },
            item: item(plan),
            batch: plan.spec.batch.is_on().then_some(Batch { problem, map: MAP, maps: MAP * MAPS, c: MAP * C }),
            producer: Producer::new(plan),
            consumer: Consumer::new(plan, &subtiles),
            fused: Emitter::new(plan).map(|emitter| emitter.context()),
            staging: StagingContext::new(plan),
            store: store::context(plan),
            overlapped: plan.epilogue.overlapped,
            packed_registers: store::packed_registers(plan),
            subtiles,
        }
    }
}

fn item(plan: &SampledPlan) -> Item {
    let words = plan.item.words();
    let chunk = |index: u32| {
        let lanes = (words - index * WARP).min(WARP);
        Chunk { register: format!("%r_word{index}"), offset: index * WARP * 4, lanes: (lanes < WARP).then_some(lanes) }
    };
    Item { words, bytes: plan.item.bytes(), chunks: (0..words.div_ceil(WARP)).map(chunk).collect() }
}
