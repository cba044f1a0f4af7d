//! Everything the templates name.

use serde::Serialize;

use super::super::plan::{AttentionPlan, Slices};
use super::block_factors::{self, BlockFactors};
use super::exchange::Exchange;
use super::fp8::{self, Factors};
use super::pages::Pages;
use super::product::{self, Output, Scores};
use super::slices::Merge;
use crate::hopper::Roles;
use crate::hopper::heads::{self, Boxes, Store, Variant, Write, boxes};
use crate::hopper::held::Held;
use crate::hopper::permuted::swizzle;
use crate::plan::AttentionTiles;
use crate::scores::score::Score;
use crate::scores::softmax::{self, Softmax};

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    roles: Roles,
    tile: Tile,
    memory: Memory,
    queries: Boxes,
    keys: Boxes,
    values: Boxes,
    step: Step,
    descriptors: Descriptors,
    /// Slices of Q that stay in registers.
    held: Vec<Held>,
    scores: Scores,
    output: Output,
    softmax: Softmax,
    score: Score,
    /// Of a kernel of 8-bit operands with factors.
    factors: Option<Factors>,
    /// The same with factors of blocks.
    block_factors: Option<BlockFactors>,
    /// The sums include a sink for each head.
    sinks: bool,
    /// Of a kernel whose K and V are in pages.
    pages: Option<Pages>,
    /// The work list is in the parameters.
    lists: bool,
    staging: Staging,
    /// Of a kernel whose tiles can be divided.
    exchange: Option<Exchange>,
    /// Of a kernel whose tiles are shared by the CTAs of clusters.
    slices: Option<Merge>,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    rows: u32,
    wg_rows: u32,
    /// Heads that share a tile, the bits of their number, and queries of a consumer.
    pack: u32,
    pack_shift: u32,
    wg_queries: u32,
    columns: u32,
    words: u32,
    bytes: u32,
    /// All consumers compute the same blocks.
    uniform: bool,
    /// The rows of V are columns, and its columns keys.
    transposes_values: bool,
    /// The coordinates of Q and O between the column and the problem: query and head, or the other way round.
    row: &'static str,
    head: &'static str,
    /// Two consumers take turns.
    turns: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    query_stages: u32,
    query_bytes: u32,
    query_units: u32,
    stages: u32,
    key_bytes: u32,
    key_units: u32,
    value_bytes: u32,
    value_units: u32,
    keys_offset: u32,
    values_offset: u32,
    records_offset: u32,
    record_bytes: u32,
    words_offset: u32,
    tail_offset: u32,
    queries_full: u32,
    keys_full: u32,
    values_full: u32,
    /// Bytes from a full barrier of Q to its empty one, and the same of K and V.
    query_empty: u32,
    ring_empty: u32,
    /// What to initialise: offset, arrivals, what it is.
    barriers: Vec<Barrier>,
    releases_late: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Barrier {
    offset: u32,
    arrivals: u32,
}

/// A step's words, one for each run of keys.
#[derive(Clone, Debug, Serialize)]
struct Step {
    /// Keys of a run, and those by which runs are numbered.
    keys: u32,
    unit: u32,
    /// Blocks of a run are told apart by the second word.
    joined: bool,
    number: u32,
    stored: u32,
    partial: u32,
    bytes: u32,
    /// The instruction that reads the lists.
    read: &'static str,
    runs: Vec<u32>,
    /// Numbers of the words.
    numbers: Vec<u32>,
    /// What an instruction that moves the words of a step is called, and its registers.
    vector: &'static str,
    words: String,
    ahead: String,
}

#[derive(Clone, Debug, Serialize)]
struct Descriptors {
    queries: String,
    keys: String,
    values: String,
    /// Bytes from one consumer's queries to the other's.
    consumer_bytes: u32,
}

/// Where O is staged: in the consumer's part of Q.
#[derive(Clone, Debug, Serialize)]
struct Staging {
    span: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    variants: Vec<Variant>,
    writes: Vec<Write>,
    stores: Vec<Store>,
    convert: String,
    /// The type of O.
    dtype: String,
}

const BARRIER: u32 = 8;
const WORD: u32 = 4;
/// Warps of a consumer.
const WARPS: u32 = 4;

impl Context {
    pub(super) fn new(plan: &AttentionPlan) -> Self {
        let t = &plan.tiling;
        let consumer_bytes = plan.queries.mn_offset(t.rows / t.roles.consumers);
        let span = plan.output.span;
        let (swizzle_shift, swizzle_mask) = swizzle(span);
        Self {
            roles: t.roles,
            tile: Tile {
                rows: t.rows,
                wg_rows: t.rows / t.roles.consumers,
                pack: t.pack,
                pack_shift: t.pack.ilog2(),
                wg_queries: t.rows / t.roles.consumers / t.pack,
                columns: t.columns,
                words: t.words,
                bytes: WORD * t.words,
                uniform: t.uniform,
                transposes_values: plan.is_fp8(),
                row: if t.pack == 1 { "%r_row" } else { "%r_head" },
                head: if t.pack == 1 { "%r_head" } else { "%r_row" },
                turns: t.turns(),
            },
            memory: memory(plan),
            queries: boxes(&plan.queries, |_| String::new()),
            keys: boxes(&plan.keys, |run| run.to_string()),
            values: match plan.is_fp8() {
                true => fp8::values(plan),
                false => boxes(&plan.values, |run| run.to_string()),
            },
            step: step(plan),
            descriptors: Descriptors {
                queries: format!("{:#018x}", plan.queries.descriptor()),
                keys: format!("{:#018x}", plan.keys.descriptor()),
                values: format!("{:#018x}", plan.values.descriptor()),
                consumer_bytes,
            },
            held: held(plan),
            scores: product::scores(plan),
            output: product::output(plan),
            softmax: softmax(plan),
            score: Score::new(plan.score(), (plan.tiles().unit(), t.blocks * plan.tiles().joined()), of_products(plan)),
            factors: Factors::new(plan),
            block_factors: BlockFactors::new(plan),
            sinks: plan.spec.sinks.is_on(),
            pages: Pages::new(plan),
            lists: plan.spec.work_list.is_some(),
            staging: Staging {
                span,
                swizzle_shift,
                swizzle_mask,
                variants: heads::variants(&plan.output),
                writes: heads::writes(&plan.output, softmax::out),
                stores: heads::stores(&plan.output),
                convert: format!("cvt.rn.{}x2.f32", plan.spec.out),
                dtype: plan.spec.out.to_string(),
            },
            exchange: plan.workspace.as_ref().map(|workspace| Exchange::new(plan, workspace)),
            slices: Merge::new(plan),
        }
    }
}

fn softmax(plan: &AttentionPlan) -> Softmax {
    let softmax = Softmax::new((plan.tiling.step, plan.tiling.columns));
    let softmax = if plan.is_fp8() { softmax.in_e4m3(plan.tiling.step, Factors::of_values(plan)) } else { softmax };
    if plan.has_block_factors() { softmax.with_block_factors() } else { softmax }
}

/// By what products of each of a thread's rows are multiplied before a score reads them.
fn of_products(plan: &AttentionPlan) -> Option<[&'static str; 2]> {
    match plan.has_block_factors() {
        true => Some(block_factors::PRODUCTS),
        false => Factors::of_products(plan).map(|register| [register; 2]),
    }
}

fn held(plan: &AttentionPlan) -> Vec<Held> {
    let buffer = ("%r_query_stage", plan.memory.query_bytes, 0);
    let of_queries = |slices| Held::new(product::QUERIES, &plan.queries, slices, buffer);
    Some(plan.tiling.held).filter(|slices| *slices > 0).map(of_queries).into_iter().collect()
}

fn memory(plan: &AttentionPlan) -> Memory {
    let m = &plan.memory;
    let consumers = plan.tiling.roles.consumers;
    let ring = |first: u32, stages: u32, empty: u32| {
        (0..2 * stages)
            .map(move |at| Barrier { offset: first + at * BARRIER, arrivals: if at < stages { 1 } else { empty } })
    };
    let of_consumer = |slices: Slices, consumer: u32| {
        let offset = m.slices_offset() + consumer * Slices::barriers_bytes();
        let taken = Barrier { offset: offset + BARRIER, arrivals: WARPS * (slices.size - 1) };
        [Barrier { offset, arrivals: 1 }, taken]
    };
    let slices =
        plan.slices().into_iter().flat_map(|slices| (0..consumers).flat_map(move |at| of_consumer(slices, at)));
    let barriers = ring(m.queries_full(), m.query_stages, consumers)
        .chain(ring(m.keys_full(), m.stages, WARPS * consumers))
        .chain(ring(m.values_full(), m.stages, WARPS * consumers))
        .chain(plan.cuts_pages().then_some(Barrier { offset: m.tail_offset, arrivals: 1 }))
        .chain(slices);
    Memory {
        query_stages: m.query_stages,
        query_bytes: m.query_bytes,
        query_units: m.query_bytes / 16,
        stages: m.stages,
        key_bytes: m.key_bytes,
        key_units: m.key_bytes / 16,
        value_bytes: m.value_bytes,
        value_units: m.value_bytes / 16,
        keys_offset: m.keys_offset,
        values_offset: m.values_offset,
        records_offset: m.records_offset,
        record_bytes: WORD * plan.tiling.words,
        words_offset: m.words_offset,
        tail_offset: m.tail_offset,
        queries_full: m.queries_full(),
        keys_full: m.keys_full(),
        values_full: m.values_full(),
        query_empty: m.query_stages * BARRIER,
        ring_empty: m.stages * BARRIER,
        barriers: barriers.collect(),
        releases_late: m.releases_late(),
    }
}

fn step(plan: &AttentionPlan) -> Step {
    let (blocks, words) = (plan.tiling.blocks, plan.tiles().step_words());
    let list = |name: &str| {
        let registers: Vec<String> = (0..words).map(|word| format!("{name}{word}")).collect();
        if words == 1 { registers.concat() } else { format!("{{ {} }}", registers.join(", ")) }
    };
    Step {
        keys: plan.tiles().run(),
        unit: plan.tiles().unit(),
        joined: plan.tiles().joined() > 1,
        number: AttentionTiles::NUMBER,
        stored: AttentionTiles::STORED,
        partial: AttentionTiles::PARTIAL,
        bytes: WORD * words,
        read: if plan.spec.work_list.is_some() { "ld.param" } else { "ld.global.nc" },
        runs: (0..blocks).collect(),
        numbers: (0..words).collect(),
        vector: if words == 1 { "" } else { ".v2" },
        words: list("%r_word"),
        ahead: list("%r_ahead"),
    }
}
