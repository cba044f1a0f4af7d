//! The consumers' multiply steps: descriptors, accumulator lists, the order of a tile's stages.

use serde::Serialize;

use super::epilogue::{self, Pack, Pass};
use crate::Dtype;
use crate::plan::Major;
use crate::plan::sdd::{Plan, Split, unit_k};

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
    accumulators: String,
    slices: Vec<Slice>,
    opening: Vec<Entry>,
    cycle: Entry,
    /// Where a tile that ends early stores what is left of the one before it.
    rests: Vec<Rest>,
    /// What becomes of its accumulators at once.
    conversions: Vec<String>,
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

#[derive(Clone, Debug, Serialize)]
struct Rest {
    label: String,
    pass: Pass,
}

impl Consumer {
    pub(super) fn new(plan: &Plan, passes: &[Pass]) -> Self {
        let t = &plan.tiling;
        let (row_stride, columns) = match t.split {
            Split::Whole => (0, 0),
            Split::Rows => (64, 0),
            Split::Slots => (0, t.wg_n()),
        };
        let slots = if t.split == Split::Slots { t.wg_slots() } else { 0 };
        let mut widths = vec![Width::new(plan, "tile", t.wg_n(), passes)];
        if t.half().is_some() {
            widths.push(Width::new(plan, "half", t.wg_n() / 2, passes));
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
            widths,
        }
    }
}

fn lags(plan: &Plan) -> bool {
    plan.tiling.roles.consumers == 1
}

impl Width {
    fn new(plan: &Plan, name: &'static str, columns: u32, passes: &[Pass]) -> Self {
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
        let rest = |i: u32| Rest { label: format!("$store_rest_{name}_{i}"), pass: passes[i as usize].clone() };
        Self {
            name,
            columns,
            shape: shape(plan, columns),
            accumulators: accumulators(plan, columns / 2),
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
            conversions: epilogue::conversions(plan, columns / 2),
            packs: epilogue::packs(plan, columns / 2),
            passes: match deferred {
                true => vec![],
                false => epilogue::passes(plan, plan.epilogue.units * columns / plan.tiling.wg_n()),
            },
        }
    }
}

/// The WGMMA-deep slices of a stage.
fn slices(plan: &Plan) -> Vec<Slice> {
    let unit = unit_k(plan.spec.a);
    let slice = |k: u32| {
        let mut setup = vec![];
        let left = descriptor(("%rd_left", "%rd_left_k"), plan.left.k_offset(k), &mut setup);
        let right = descriptor(("%rd_right", "%rd_right_k"), plan.right.k_offset(k), &mut setup);
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

fn shape(plan: &Plan, n: u32) -> String {
    let unit = unit_k(plan.spec.a);
    match plan.spec.a.is_integer() {
        true => format!("m64n{n}k{unit}.s32.s8.s8"),
        false => format!("m64n{n}k{unit}.f32.{}.{}", plan.sides.left.dtype, plan.sides.right.dtype),
    }
}

fn modifiers(plan: &Plan) -> String {
    let transposed = |major: Major| u32::from(major == Major::Mn);
    match plan.spec.a {
        Dtype::I8 => String::new(),
        dtype if dtype.bytes() == 1 => ", 1, 1".to_owned(),
        _ => format!(", 1, 1, {}, {}", transposed(plan.left.major), transposed(plan.right.major)),
    }
}

/// The name of accumulator `i`.
pub(super) fn accumulator(plan: &Plan, i: u32) -> String {
    if plan.spec.a.is_integer() { format!("%r_acc{i}") } else { format!("%f_acc{i}") }
}

fn accumulators(plan: &Plan, count: u32) -> String {
    let names: Vec<String> = (0..count).map(|i| accumulator(plan, i)).collect();
    let lines: Vec<String> = names.chunks(PER_LINE).map(|line| line.join(", ")).collect();
    lines.join(",\n          ")
}
