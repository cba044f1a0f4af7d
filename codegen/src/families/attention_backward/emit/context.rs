//! Everything the templates name.

use serde::Serialize;

use super::super::plan::GradientPlan;
use super::probability::Probability;
use super::product::{self, Gradient, Product};
use super::score::Score;
use super::sums::Sums;
use crate::epilogue::widen;
use crate::hopper::heads::{self, Boxes, Store, Variant, Write, boxes};
use crate::hopper::held::Held;
use crate::hopper::permuted::swizzle;
use crate::hopper::{OperandTile, Roles};
use crate::plan::{AttentionTiles, GradientTiles};

/// The whole context of one body.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Context {
    roles: Roles,
    /// The tile is of keys: dK and dV are computed. Otherwise it is of queries, and dQ is.
    of_keys: bool,
    tile: Tile,
    memory: Memory,
    /// Tensor maps, by the ends of their names.
    maps: Vec<&'static str>,
    /// Loads of a tile's rows, and of a step's: for S and for dP.
    fixed: [Operand; 2],
    passing: [Operand; 2],
    output: Operand,
    step: Step,
    /// Slices of the tile's rows that stay in registers.
    held: Vec<Held>,
    products: [Product; 2],
    gradients: Vec<Gradient>,
    probability: Probability,
    /// The scores of partial blocks, where they are not `s * scale`, and whether their derivative is not the scale either.
    score: Option<Score>,
    has_derivative: bool,
    /// Gradients of the score's parameters, where they are wanted.
    sums: Option<Sums>,
    delta: Delta,
    staging: Staging,
    /// What is stored.
    results: Vec<ResultOf>,
}

#[derive(Clone, Debug, Serialize)]
struct Tile {
    rows: u32,
    wg_rows: u32,
    words: u32,
    bytes: u32,
    /// All consumers compute the same blocks.
    uniform: bool,
    /// What its rows are, and those of a step.
    own: &'static str,
    other: &'static str,
    /// The ends of the names of registers with the numbers of a step's rows.
    column: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct Memory {
    sets: u32,
    stages: u32,
    output_offset: u32,
    columns_offset: u32,
    column_bytes: u32,
    /// Bytes from -LSE of a step's queries to delta of them.
    delta_offset: u32,
    records_offset: u32,
    record_bytes: u32,
    words_offset: u32,
    fixed_full: u32,
    output_full: u32,
    /// Bytes from full barriers to empty ones.
    fixed_empty: u32,
    ring_empty: u32,
    barriers: Vec<Barrier>,
}

#[derive(Clone, Debug, Serialize)]
struct Barrier {
    offset: u32,
    arrivals: u32,
}

/// An operand in shared memory, and how it comes there.
#[derive(Clone, Debug, Serialize)]
struct Operand {
    /// What records call it.
    name: &'static str,
    boxes: Boxes,
    map: String,
    /// Where its buffers or stages are, and bytes and descriptor units from one to the next.
    offset: u32,
    bytes: u32,
    units: u32,
    descriptor: String,
    /// Bytes from one consumer's rows to the other's.
    consumer_bytes: u32,
    consumer_units: u32,
    /// The first of its full barriers.
    full: u32,
}

/// A step's words.
#[derive(Clone, Debug, Serialize)]
struct Step {
    /// Rows of a run.
    rows: u32,
    number: u32,
    stored: u32,
    partial: u32,
    bytes: u32,
}

/// delta = rowsum(dO * O): what a thread reads of its two rows, a quarter of the columns.
#[derive(Clone, Debug, Serialize)]
struct Delta {
    span: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    /// Bytes from a thread's first row to its second.
    rows_bytes: u32,
    vectors: Vec<Vector>,
    /// Of the two words of half a vector: the two elements of dO and of O widened, and their products added to `%f_delta`.
    words: Vec<Vec<String>>,
}

#[derive(Clone, Debug, Serialize)]
struct Vector {
    row: u32,
    flip: u32,
    offset: u32,
}

/// How results are staged.
#[derive(Clone, Debug, Serialize)]
struct Staging {
    span: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    variants: Vec<Variant>,
    convert: String,
}

/// A gradient that is stored.
#[derive(Clone, Debug, Serialize)]
struct ResultOf {
    name: &'static str,
    map: String,
    /// Its registers, and whether they are multiplied by the scale.
    registers: Vec<String>,
    is_scaled: bool,
    /// Where it is staged, and bytes from one buffer of a tile's rows to the next.
    offset: u32,
    set_bytes: u32,
    writes: Vec<Write>,
    stores: Vec<Store>,
}

const BARRIER: u32 = 8;
const WORD: u32 = 4;
/// Warps of a consumer.
const WARPS: u32 = 4;

impl Context {
    pub(super) fn new(plan: &GradientPlan) -> Self {
        let (t, m, o) = (&plan.tiling, &plan.memory, &plan.operands);
        let of_keys = t.is_of_keys();
        let [fixed_maps, passing_maps] = if of_keys { [["k", "v"], ["q", "do"]] } else { [["q", "do"], ["k", "v"]] };
        let own_rows = t.rows / t.roles.consumers;
        let operand = |tile: &OperandTile, map: &str, offset: u32, bytes: u32, full: u32| Operand {
            name: recorded_as(map),
            boxes: boxes(tile, |_| String::new()),
            map: format!("%rd_map_{map}"),
            offset,
            bytes,
            units: bytes / 16,
            // With where the first buffer or stage is.
            descriptor: format!("{:#018x}", tile.descriptor() + u64::from(offset / 16)),
            consumer_bytes: tile.mn_offset(own_rows),
            consumer_units: tile.mn_offset(own_rows) / 16,
            full,
        };
        let fixed = [0, 1].map(|at: usize| {
            operand(&o.fixed[at], fixed_maps[at], m.fixed_offsets[at], m.fixed_bytes[at], m.fixed_full())
        });
        let passing = [0, 1].map(|at: usize| {
            let (offset, bytes) = (m.passing_offsets[at], m.passing_bytes[at]);
            operand(&o.passing[at], passing_maps[at], offset, bytes, m.passing_full()[at])
        });
        let maps: &[&str] =
            if of_keys { &["q", "k", "v", "do", "dk", "dv"] } else { &["q", "k", "v", "do", "o", "dq"] };
        let span = o.output.span;
        let (swizzle_shift, swizzle_mask) = swizzle(span);
        Self {
            roles: t.roles,
            of_keys,
            tile: Tile {
                rows: t.rows,
                wg_rows: own_rows,
                words: t.tiles().tiles.tile_words,
                bytes: WORD * t.tiles().tiles.tile_words,
                uniform: t.is_uniform(),
                own: if of_keys { "keys" } else { "queries" },
                other: t.other_side().0,
                column: if of_keys { "query" } else { "key" },
            },
            memory: memory(plan),
            maps: maps.to_vec(),
            fixed,
            passing,
            output: operand(&o.output, "o", m.output_offset, m.output_bytes, m.output_full()),
            step: Step {
                rows: t.step,
                number: AttentionTiles::NUMBER,
                stored: AttentionTiles::STORED,
                partial: AttentionTiles::PARTIAL,
                bytes: WORD * GradientTiles::STEP_WORDS as u32,
            },
            held: held(plan),
            products: product::products(plan),
            gradients: product::gradients(plan),
            probability: Probability::new(plan),
            score: Score::new(plan),
            has_derivative: t.has_derivative,
            sums: Sums::new(plan),
            delta: delta(plan),
            staging: Staging {
                span,
                swizzle_shift,
                swizzle_mask,
                variants: heads::variants(&o.output),
                convert: format!("cvt.rn.{}x2.f32", plan.spec.out),
            },
            results: results(plan),
        }
    }
}

/// What records call the operand of a tensor map.
fn recorded_as(map: &str) -> &'static str {
    match map {
        "q" => "queries",
        "k" => "keys",
        "v" => "values",
        "do" => "gradients",
        _ => "output",
    }
}

fn memory(plan: &GradientPlan) -> Memory {
    let m = &plan.memory;
    let consumers = plan.tiling.roles.consumers;
    let of_keys = plan.tiling.is_of_keys();
    let ring = |first: u32, stages: u32, [full, empty]: [u32; 2]| {
        (0..2 * stages)
            .map(move |at| Barrier { offset: first + at * BARRIER, arrivals: if at < stages { full } else { empty } })
    };
    // Rows of a tile are released by each warp, or where gradients are staged in their place, by the thread that stores.
    let release = if of_keys { consumers } else { WARPS * consumers };
    let [first, second] = m.passing_full();
    let barriers = ring(m.fixed_full(), m.sets, [1, release])
        .chain(ring(m.output_full(), 1, [1, consumers]))
        .chain(ring(first, m.stages, [1, WARPS * consumers]))
        .chain(ring(second, m.stages, [1, WARPS * consumers]));
    Memory {
        sets: m.sets,
        stages: m.stages,
        output_offset: m.output_offset,
        columns_offset: m.columns_offset,
        column_bytes: m.column_bytes,
        delta_offset: m.column_bytes / 2,
        records_offset: m.records_offset,
        record_bytes: WORD * plan.tiling.tiles().tiles.tile_words,
        words_offset: m.words_offset,
        fixed_full: m.fixed_full(),
        output_full: m.output_full(),
        fixed_empty: m.sets * BARRIER,
        ring_empty: m.stages * BARRIER,
        barriers: barriers.collect(),
    }
}

fn held(plan: &GradientPlan) -> Vec<Held> {
    let of_operand = |operand: usize| {
        let buffer = ("%r_set", plan.memory.fixed_bytes[operand], plan.memory.fixed_offsets[operand]);
        Held::new(operand, &plan.operands.fixed[operand], plan.tiling.held[operand], buffer)
    };
    [0, 1].into_iter().filter(|operand| plan.tiling.held[*operand] > 0).map(of_operand).collect()
}

fn delta(plan: &GradientPlan) -> Delta {
    let tile = &plan.operands.output;
    // Vectors of 16 bytes of a panel's row; a quarter of every four is a thread's.
    let per_panel = tile.span / 16;
    let (swizzle_shift, swizzle_mask) = swizzle(tile.span);
    let vector = |row: u32, number: u32, half: u32| Vector {
        row,
        flip: 4 * number % per_panel * 16,
        offset: 4 * number / per_panel * tile.panel_bytes() + 8 * row * tile.span + 8 * half,
    };
    let count = tile.panels * per_panel / 4;
    let word = |number: u32| {
        let mut lines = vec![];
        for from in ["g", "o"] {
            lines.push(format!("mov.b32 {{ %h_{from}0, %h_{from}1 }}, %r_{from}{number}"));
            lines.extend(
                [0, 1].map(|half| widen(plan.spec.a, &format!("%f_{from}{half}"), &format!("%h_{from}{half}"))),
            );
        }
        lines
    };
    Delta {
        span: tile.span,
        swizzle_shift,
        swizzle_mask,
        rows_bytes: 8 * tile.span,
        // Half a vector at a time: more words would take registers that sums need.
        vectors: (0..count)
            .flat_map(|number| [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(row, half)| vector(row, number, half)))
            .collect(),
        words: (0..2).map(word).collect(),
    }
}

fn results(plan: &GradientPlan) -> Vec<ResultOf> {
    let (t, m, o) = (&plan.tiling, &plan.memory, &plan.operands);
    let of_keys = t.is_of_keys();
    let result =
        |name: &'static str, number: usize, columns: u32, register: fn(u32) -> String, is_scaled: bool| ResultOf {
            name,
            map: format!("%rd_map_{name}"),
            registers: (0..columns / 2).map(register).collect(),
            is_scaled,
            offset: if of_keys { m.fixed_offsets[number] } else { m.output_offset },
            set_bytes: if of_keys { m.fixed_bytes[number] } else { 0 },
            writes: heads::writes(&o.fixed[number], register),
            stores: heads::stores(&o.fixed[number]),
        };
    match of_keys {
        true => {
            vec![result("dk", 0, t.depth, product::first, true), result("dv", 1, t.columns, product::second, false)]
        }
        false => vec![result("dq", 0, t.depth, product::first, true)],
    }
}
