//! The consumers' multiply steps: descriptors, accumulator lists, the order of a tile's stages.

use serde::Serialize;

use super::super::plan::{SampledPlan, Split};
use super::epilogue::{self, Pass};
use super::fused::Strip;
use crate::Dtype;
use crate::hopper::fused::Pack;
use crate::hopper::wgmma_k;
use crate::plan::{Major, Sampling};

/// Accumulators on one line of an operand list.
const PER_LINE: usize = 16;

/// The consumer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Consumer {
    /// What follows the predicate of a WGMMA: negations and transpositions, where the type has them.
    modifiers: String,
    left_stride: u32,
    right_stride: u32,
    left_descriptor: String,
    right_descriptor: String,
    row_stride: u32,
    /// Bytes from one consumer's slots to the next one's in an item.
    stores_stride: u32,
    /// Bytes from an item's start to what the stores of the first slot need.
    stores: u32,
    /// A stage is released one stage late, so that WGMMAs are always in flight: a lone consumer has nobody to fill
    /// its gaps.
    lag: bool,
    /// Word 6 of an item that contributes.
    contributes: u32,
    consumers: u32,
    /// Bytes of a consumer's part of a place in the workspace, of all consumers' parts, and of the sums before the flag.
    place_bytes: u32,
    places_bytes: u32,
    sums_bytes: u32,
    exchange: &'static str,
    add: &'static str,
    /// The walk over a tile of all slots, then that over one of half of them, where there are such tiles.
    widths: Vec<Width>,
}

/// The code of tiles of one width.
#[derive(Clone, Debug, Serialize)]
struct Width {
    /// What its labels begin with.
    name: &'static str,
    columns: u32,
    shape: String,
    /// Sums to clear where there are tiles of two widths.
    cleared: Vec<String>,
    accumulators: String,
    slices: Vec<Slice>,
    opening: Vec<Entry>,
    cycle: Entry,
    /// Where a tile that ends early stores what is left of the one before it.
    rests: Vec<Rest>,
    /// Its sums, as they go to the workspace, and how they are collected from there.
    parts: Vec<Part>,
    collects: Vec<Collect>,
    /// What becomes of its accumulators at once.
    conversions: Vec<String>,
    /// The spec's epilogue on them, where it reads no full operand.
    strips: Vec<Strip>,
    packs: Vec<Pack>,
    /// Its stores, where they follow at once.
    passes: Vec<Pass>,
}

/// One WGMMA instruction's K within a stage, and the additions that make its descriptors.
#[derive(Clone, Debug, Serialize)]
struct Slice {
    setup: Vec<String>,
    left: &'static str,
    right: &'static str,
    first: bool,
}

/// A stage in a tile's order.
#[derive(Clone, Debug, Serialize)]
struct Entry {
    /// Is there one more?
    check: bool,
    rest: String,
    label: String,
    /// The first stage of a tile overwrites the accumulators.
    overwrites: bool,
    passes: Vec<Pass>,
    release: &'static str,
}

/// 16 bytes of a thread's sums in the workspace.
#[derive(Clone, Debug, Serialize)]
struct Part {
    offset: u32,
    registers: String,
}

/// Loads that are on their way together, and what is done with them.
#[derive(Clone, Debug, Serialize)]
struct Collect {
    loads: Vec<Part>,
    sums: Vec<Sum>,
}

#[derive(Clone, Debug, Serialize)]
struct Sum {
    sum: String,
    part: String,
}

#[derive(Clone, Debug, Serialize)]
struct Rest {
    label: String,
    pass: Pass,
}

impl Consumer {
    pub(super) fn new(plan: &SampledPlan, passes: &[Pass]) -> Self {
        let t = &plan.tiling;
        let (row_stride, columns) = match t.split {
            Split::Whole => (0, 0),
            Split::Rows => (64, 0),
            Split::Slots => (0, t.wg_n()),
        };
        let slots = if t.split == Split::Slots { t.wg_slots() } else { 0 };
        let mut widths = vec![Width::new(plan, ("tile", WHOLE), t.wg_n(), passes)];
        if t.half().is_some() {
            widths.push(Width::new(plan, ("half", HALF), t.wg_n() / 2, passes));
        }
        Self {
            modifiers: modifiers(plan),
            left_stride: plan.left.mn_offset(row_stride),
            right_stride: plan.right.mn_offset(columns),
            left_descriptor: format!("{:#018x}", plan.left.descriptor()),
            right_descriptor: format!("{:#018x}", plan.right.descriptor()),
            row_stride,
            stores_stride: plan.item.stores(slots) - plan.item.stores(0),
            stores: plan.item.stores(0),
            lag: lags(plan),
            contributes: Sampling::CONTRIBUTES,
            consumers: t.roles.consumers,
            place_bytes: plan.place_bytes(),
            places_bytes: t.roles.consumers * plan.place_bytes(),
            sums_bytes: plan.sums_bytes(),
            exchange: if plan.spec.a.is_integer() { "u32" } else { "f32" },
            add: if plan.spec.a.is_integer() { "add.u32" } else { "add.f32" },
            widths,
        }
    }
}

fn lags(plan: &SampledPlan) -> bool {
    plan.tiling.roles.consumers == 1
}

impl Width {
    fn new(plan: &SampledPlan, (name, stem): (&'static str, Stem), columns: u32, passes: &[Pass]) -> Self {
        let deferred = plan.epilogue.deferred;
        let stages = if deferred { passes.len() as u32 } else { 1 };
        let lag = lags(plan);
        let entry = |i: u32| Entry {
            check: i > 0,
            rest: format!("$store_rest_{name}_{i}"),
            label: format!("$full_{name}_{i}"),
            overwrites: i == 0,
            passes: if deferred { vec![passes[i as usize].clone()] } else { vec![] },
            release: match (lag, i) {
                (false, _) => "current",
                (true, 0) => "none",
                (true, _) => "previous",
            },
        };
        let units = plan.epilogue.units * columns / plan.tiling.wg_n();
        let rest = |i: u32| Rest { label: format!("$store_rest_{name}_{i}"), pass: passes[i as usize].clone() };
        Self {
            name,
            columns,
            shape: shape(plan, columns),
            cleared: match plan.tiling.half() {
                Some(_) => (0..columns / 2).map(|i| accumulator(plan, stem, i)).collect(),
                None => vec![],
            },
            accumulators: accumulators(plan, stem, columns / 2),
            slices: slices(plan),
            opening: (0..stages).map(entry).collect(),
            cycle: Entry {
                check: true,
                rest: String::new(),
                label: format!("$full_{name}"),
                overwrites: false,
                passes: vec![],
                release: if lag { "previous" } else { "current" },
            },
            rests: if deferred { (1..stages).map(rest).collect() } else { vec![] },
            parts: parts(plan, stem, columns / 2),
            collects: collects(plan, stem, columns / 2),
            conversions: epilogue::conversions(plan, stem, columns / 2),
            strips: epilogue::strips(plan, stem, units),
            packs: epilogue::packs(plan, stem, columns / 2),
            passes: match deferred {
                true => vec![],
                false => epilogue::passes(plan, stem, units),
            },
        }
    }
}

/// The WGMMA-deep slices of a stage.
fn slices(plan: &SampledPlan) -> Vec<Slice> {
    let unit = wgmma_k(plan.spec.a);
    let slice = |k: u32| {
        let mut setup = vec![];
        let left = descriptor(("%rd_a", "%rd_a_k"), plan.left.k_offset(k), &mut setup);
        let right = descriptor(("%rd_b", "%rd_b_k"), plan.right.k_offset(k), &mut setup);
        Slice { setup, left, right, first: k == 0 }
    };
    (0..plan.k_step()).step_by(unit as usize).map(slice).collect()
}

/// The register that holds the first of `registers` and `offset` bytes in descriptor units of 16.
fn descriptor(registers: (&'static str, &'static str), offset: u32, setup: &mut Vec<String>) -> &'static str {
    if offset == 0 {
        return registers.0;
    }
    setup.push(format!("add.s64 {}, {}, {}", registers.1, registers.0, offset / 16));
    registers.1
}

fn shape(plan: &SampledPlan, n: u32) -> String {
    let unit = wgmma_k(plan.spec.a);
    match plan.spec.a.is_integer() {
        true => format!("m64n{n}k{unit}.s32.s8.s8"),
        false => format!("m64n{n}k{unit}.f32.{}.{}", plan.sides.left.dtype, plan.sides.right.dtype),
    }
}

fn modifiers(plan: &SampledPlan) -> String {
    let transposed = |major: Major| u32::from(major == Major::Mn);
    match plan.spec.a {
        Dtype::I8 => String::new(),
        dtype if dtype.bytes() == 1 => ", 1, 1".to_owned(),
        _ => format!(", 1, 1, {}, {}", transposed(plan.left.major), transposed(plan.right.major)),
    }
}

/// What the names of a tile's accumulators begin with. Tiles of half the width have names of their own, and sums that are
/// cleared first, although the first WGMMA overwrites them: so no sum of one kind of tile is alive in the other kind.
/// Where they shared names, ptxas 13.0 kept some elsewhere and serialized WGMMA to move them (its diagnostic C7511).
pub(super) type Stem = &'static str;
/// The stem of tiles of all slots.
pub(super) const WHOLE: Stem = "acc";
/// The stem of tiles of half of them.
const HALF: Stem = "half";

/// The name of accumulator `i`.
pub(super) fn accumulator(plan: &SampledPlan, stem: Stem, i: u32) -> String {
    if plan.spec.a.is_integer() { format!("%r_{stem}{i}") } else { format!("%f_{stem}{i}") }
}

/// Registers that collect at once: enough loads in flight to hide most of their latency.
const COLLECTED: u32 = 32;

/// A thread's sums in pieces of four, those of neighbouring threads side by side.
fn parts(plan: &SampledPlan, stem: Stem, count: u32) -> Vec<Part> {
    pieces(plan, 0, (0..count).map(|i| accumulator(plan, stem, i)).collect())
}

fn collects(plan: &SampledPlan, stem: Stem, count: u32) -> Vec<Collect> {
    let part = |i: u32| if plan.spec.a.is_integer() { format!("%r_part{i}") } else { format!("%f_part{i}") };
    let collect = |first: u32| {
        let size = COLLECTED.min(count - first);
        let sum = |i: u32| Sum { sum: accumulator(plan, stem, first + i), part: part(i) };
        Collect { loads: pieces(plan, first, (0..size).map(part).collect()), sums: (0..size).map(sum).collect() }
    };
    (0..count).step_by(COLLECTED as usize).map(collect).collect()
}

fn pieces(plan: &SampledPlan, first: u32, names: Vec<String>) -> Vec<Part> {
    let part = |(i, four): (usize, &[String])| Part {
        offset: (first / 4 + i as u32) * 16 * plan.arch.warpgroup,
        registers: format!("{{ {} }}", four.join(", ")),
    };
    names.chunks(4).enumerate().map(part).collect()
}

fn accumulators(plan: &SampledPlan, stem: Stem, count: u32) -> String {
    let names: Vec<String> = (0..count).map(|i| accumulator(plan, stem, i)).collect();
    let lines: Vec<String> = names.chunks(PER_LINE).map(|line| line.join(", ")).collect();
    lines.join(",\n          ")
}
