//! Everything the templates name.

use serde::Serialize;

use super::super::plan::{AttentionWarpPlan, VECTOR_BYTES, WARP_ROWS};
use super::copies::{Copied, flips};
use super::products::{self, Held, Multiplied};
use crate::plan::AttentionTiles;
use crate::scores::score::Score;
use crate::scores::softmax::{Softmax, out};

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    tile: Tile,
    memory: Memory,
    step: Step,
    queries: Copied,
    keys: Copied,
    values: Copied,
    output: Copied,
    /// Address registers of Q, K and V: the bits in which each differs from the first.
    flips: Flips,
    /// Q of a warp.
    fragments: Vec<Held>,
    instruction: String,
    scores: Vec<Multiplied>,
    products: Vec<Multiplied>,
    sums: Vec<String>,
    softmax: Softmax,
    score: Score,
    /// The sums include a sink for each head.
    sinks: bool,
    staging: Staging,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    rows: u32,
    warps: u32,
    warp_rows: u32,
    bytes: u32,
    words: u32,
    /// Heads that share a tile.
    pack: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    stages: u32,
    stage_bytes: u32,
    /// Stages in flight while one is computed, their bytes, and those of the whole ring.
    ahead: u32,
    ahead_bytes: u32,
    ring_bytes: u32,
    /// Copies that may be under way when a step begins.
    pending: u32,
    queries_offset: u32,
    warp_bytes: u32,
    /// Registers of the words of steps in flight, the next one first.
    words: Vec<String>,
}

/// A step's word.
#[derive(Clone, Debug, Serialize)]
struct Step {
    keys: u32,
    unit: u32,
    joined: bool,
    number: u32,
    partial: u32,
    bytes: u32,
    read: &'static str,
    runs: [u32; 1],
    numbers: [u32; 1],
    vector: &'static str,
    ahead: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct Flips {
    q: Vec<u32>,
    k: Vec<u32>,
    v: Vec<u32>,
}

/// Pairs of neighbouring columns of O on their way to shared memory.
#[derive(Clone, Debug, Serialize)]
struct Staging {
    convert: String,
    dtype: String,
    writes: Vec<Write>,
    /// Bytes to a thread's other row.
    second_row: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Write {
    /// The bits in which the vector's place differs from that of the first, and bytes from there.
    flip: u32,
    offset: u32,
    /// Lower and upper column of each of the thread's rows.
    rows: [[String; 2]; 2],
}

const WORD: u32 = 4;

impl Context {
    pub(super) fn new(plan: &AttentionWarpPlan) -> Self {
        let (t, m) = (&plan.tiling, &plan.memory);
        let tiles = plan.tiles();
        let stage_bytes = m.key_bytes + m.value_bytes;
        let dtype = plan.spec.a;
        Self {
            tile: Tile {
                rows: t.rows,
                warps: t.warps(),
                warp_rows: WARP_ROWS,
                bytes: WORD * tiles.tile_words,
                words: tiles.tile_words,
                pack: 1,
            },
            memory: Memory {
                stages: m.stages,
                stage_bytes,
                ahead: m.stages - 1,
                ahead_bytes: (m.stages - 1) * stage_bytes,
                ring_bytes: m.stages * stage_bytes,
                pending: m.stages - 2,
                queries_offset: m.queries_offset,
                warp_bytes: m.warp_bytes,
                words: (1..m.stages).map(|number| format!("%r_next_word{number}")).collect(),
            },
            step: Step {
                keys: t.step,
                unit: t.step,
                joined: false,
                number: AttentionTiles::NUMBER,
                partial: AttentionTiles::PARTIAL,
                bytes: WORD,
                read: "ld.global.nc",
                runs: [0],
                numbers: [0],
                vector: "",
                ahead: "%r_ahead0",
            },
            queries: Copied::new("q", &plan.queries, 0),
            keys: Copied::new("k", &plan.keys, 0),
            values: Copied::new("v", &plan.values, m.key_bytes),
            output: Copied::new("o", &plan.output, 0),
            flips: Flips { q: flips(&plan.queries), k: flips(&plan.keys), v: flips(&plan.values) },
            fragments: products::held(plan),
            instruction: format!("mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32"),
            scores: products::scores(plan),
            products: products::output(plan),
            sums: (0..t.columns / 2).map(out).collect(),
            softmax: Softmax::new((t.step, t.columns)),
            score: Score::new(plan.score(), (t.step, 1), None),
            sinks: plan.spec.sinks.is_on(),
            staging: staging(plan),
        }
    }
}

fn staging(plan: &AttentionWarpPlan) -> Staging {
    let lines = &plan.output;
    let write = |vector: u32| Write {
        flip: vector % lines.group * VECTOR_BYTES,
        offset: vector / lines.group * lines.group * VECTOR_BYTES,
        rows: [0, 2].map(|row| [0, 1].map(|column| out(4 * vector + row + column))),
    };
    Staging {
        convert: format!("cvt.rn.{}x2.f32", plan.spec.out),
        dtype: plan.spec.out.to_string(),
        writes: (0..lines.vectors).map(write).collect(),
        second_row: WARP_ROWS / 2 * lines.pitch(),
    }
}
