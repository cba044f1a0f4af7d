//! Everything the templates name.

use serde::Serialize;

use super::super::plan::SddmmPlan;
use super::consumer::Consumer;
use super::fused::{Emitter, Fused};
use super::producer::Producer;
use super::staging::StagingContext;
use super::store::{self, Subtile};
use crate::hopper::problem_maps::{C, MAP};
use crate::hopper::ring::RingContext;
use crate::hopper::split_k::Workspace;
use crate::hopper::{Roles, store::Store};

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    tile: Tile,
    roles: Roles,
    ring: RingContext,
    memory: Memory,
    work_tile: WorkTile,
    /// The kernel is for a list of problems: its tensor maps are in global memory.
    batch: Option<Batch>,
    producer: Producer,
    consumer: Consumer,
    workspace: Workspace,
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
    panels: u32,
    panel_columns: u32,
    k_step: u32,
    accumulators: u32,
    dtype: String,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    right_offset: u32,
    staging_offset: u32,
    work_tiles: u32,
    work_tiles_offset: u32,
    work_tiles_bytes: u32,
    work_tiles_end: u32,
}

#[derive(Clone, Debug, Serialize)]
struct WorkTile {
    words: u32,
    bytes: u32,
    copies: Vec<WarpCopy>,
}

/// Words of a work tile that the producer copies at once, one a lane.
#[derive(Clone, Debug, Serialize)]
struct WarpCopy {
    register: String,
    offset: u32,
    /// Fewer than a warp has lanes: the last copy.
    lanes: Option<u32>,
}

/// The offset of the problem in a work tile, and the address of a problem's tensor maps.
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
    pub(super) fn new(plan: &SddmmPlan) -> Self {
        let (t, m) = (&plan.tiling, &plan.memory);
        let subtiles = store::whole(plan);
        let operand = plan.epilogue.has_tile.then_some((m.tile_offset, t.roles.consumers));
        let problem = super::super::plan::WorkTile::PROBLEM;
        Self {
            tile: Tile {
                cta_m: t.cta_m,
                cta_n: t.cta_n(),
                wg_n: t.wg_n(),
                panels: t.panels,
                panel_columns: t.panel_columns,
                k_step: plan.k_step(),
                accumulators: t.accumulators(),
                dtype: plan.spec.out.to_string(),
            },
            roles: t.roles,
            ring: m.ring.context(1, operand),
            memory: Memory {
                right_offset: m.right_offset,
                staging_offset: m.staging_offset,
                work_tiles: m.work_tiles,
                work_tiles_offset: m.work_tiles_offset,
                work_tiles_bytes: m.work_tiles * plan.work_tile.bytes(),
                work_tiles_end: m.work_tiles_offset + m.work_tiles * plan.work_tile.bytes(),
            },
            work_tile: work_tile(plan),
            batch: plan.spec.batch.is_on().then_some(Batch { problem, map: MAP, maps: MAP * MAPS, c: MAP * C }),
            producer: Producer::new(plan),
            workspace: plan.workspace(),
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

fn work_tile(plan: &SddmmPlan) -> WorkTile {
    let words = plan.work_tile.words();
    let copy = |index: u32| {
        let lanes = (words - index * WARP).min(WARP);
        WarpCopy {
            register: format!("%r_word{index}"),
            offset: index * WARP * 4,
            lanes: (lanes < WARP).then_some(lanes),
        }
    };
    WorkTile { words, bytes: plan.work_tile.bytes(), copies: (0..words.div_ceil(WARP)).map(copy).collect() }
}
