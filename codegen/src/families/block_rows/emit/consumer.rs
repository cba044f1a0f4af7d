//! The consumers' multiply steps: descriptors, accumulator lists, the order of a tile's stages.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, Split};
use super::epilogue::Pass;
use super::{batch, scale};
use crate::Dtype;
use crate::hopper::{OperandTile, wgmma_k};
use crate::plan::Major;

/// Accumulators on one line of an operand list.
const PER_LINE: usize = 16;

/// One stage's worth of WGMMAs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    label: String,
    comment: String,
    /// Sums over the stage that are added to the tile's one after the other, or all of it at once.
    groups: Vec<Group>,
    /// The factors of the stage's blocks, read from shared memory.
    factors: Vec<String>,
}

/// WGMMAs that are committed together, and what is done with their sums.
#[derive(Clone, Debug, Serialize)]
struct Group {
    wgmmas: Vec<Wgmma>,
    promotes: Vec<String>,
}

/// One WGMMA instruction and the additions that make its descriptors.
#[derive(Clone, Debug, Serialize)]
struct Wgmma {
    setup: Vec<String>,
    accumulators: String,
    a: String,
    b: String,
    scale_d: &'static str,
}

/// The consumer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Consumer {
    shape: String,
    /// What follows the predicate of a WGMMA: negations and transpositions, where the type has them.
    modifiers: String,
    promoted: bool,
    a_stride: u32,
    b_stride: u32,
    a_descriptor: String,
    b_descriptor: String,
    row_stride: u32,
    col_stride: u32,
    lag: bool,
    count: Vec<String>,
    shifts: Vec<String>,
    factor_shift: Vec<String>,
    release_comment: String,
    release_setup: Vec<String>,
    release_base: &'static str,
    release_op: &'static str,
    opening: Vec<Entry>,
    cycle: Vec<Entry>,
    rests: Vec<Rest>,
}

/// A stage in a tile's order: is there one more, what to multiply, what to store meanwhile, what to release.
#[derive(Clone, Debug, Serialize)]
struct Entry {
    check: bool,
    rest: String,
    step: Step,
    passes: Vec<Pass>,
    release: &'static str,
}

/// Where a tile that ends early stores what is left of the one before it.
#[derive(Clone, Debug, Serialize)]
struct Rest {
    label: String,
    passes: Vec<Pass>,
}

impl Consumer {
    pub(super) fn new(plan: &BlockRowsPlan, passes: &[Pass]) -> Self {
        let (a, b, t) = (&plan.a, &plan.b, &plan.tiling);
        let (row_stride, col_stride) = match t.split {
            Split::Rows => (t.wg_m, 0),
            Split::Columns => (0, t.wg_n),
        };
        let order = Order::new(plan);
        Self {
            shape: shape(plan),
            modifiers: modifiers(plan),
            promoted: plan.precision.promoted,
            a_stride: a.mn_offset(row_stride),
            b_stride: b.mn_offset(col_stride),
            a_descriptor: format!("{:#018x}", a.descriptor()),
            b_descriptor: format!("{:#018x}", b.descriptor()),
            row_stride,
            col_stride,
            lag: order.lag,
            count: count(plan.kloop.slots, order.counted),
            shifts: [super::context::output_shifts(plan), batch::adopt_problem(plan)].concat(),
            factor_shift: scale::factor_shift(plan),
            release_comment: release_comment(plan),
            release_setup: release_setup(plan),
            release_base: if t.cluster > 1 { "%r_empty_remote" } else { "%r_empty" },
            release_op: if t.cluster > 1 {
                "mbarrier.arrive.shared::cluster.b64"
            } else {
                "mbarrier.arrive.shared::cta.b64"
            },
            opening: order.opening(plan, passes),
            cycle: order.cycle(plan),
            rests: order.rests(passes),
        }
    }
}

/// In which order a tile walks its stages: an opening that stores the previous tile, then a cycle.
struct Order {
    /// Stages in the opening.
    opening: u32,
    /// Stages of a block that have code of their own.
    distinct: u32,
    /// Stages that one count of the loop counter stands for, per block.
    counted: u32,
    /// A stage is released one stage late, so that WGMMAs are always in flight: with a single consumer nobody
    /// else keeps the tensor cores busy.
    lag: bool,
}

impl Order {
    fn new(plan: &BlockRowsPlan) -> Self {
        let k = &plan.kloop;
        Self {
            opening: if plan.epilogue.deferred { plan.epilogue.passes() } else { 1 },
            distinct: k.distinct(),
            counted: if k.uniform() { k.steps } else { 1 },
            lag: plan.tiling.roles.consumers == 1 && !plan.precision.promoted,
        }
    }

    /// The opening stores pass `i` under stage `i`.
    fn opening(&self, plan: &BlockRowsPlan, passes: &[Pass]) -> Vec<Entry> {
        (0..self.opening)
            .map(|i| Entry {
                check: i > 0 && i.is_multiple_of(self.distinct),
                rest: if plan.epilogue.deferred { format!("$store_rest_{i}") } else { String::new() },
                step: step(plan, i % self.distinct, &format!("$full_opening_{i}"), i == 0),
                passes: if plan.epilogue.deferred { vec![passes[i as usize].clone()] } else { vec![] },
                release: match (self.lag, i) {
                    (false, _) => "current",
                    (true, 0) => "none",
                    (true, _) => "previous",
                },
            })
            .collect()
    }

    fn cycle(&self, plan: &BlockRowsPlan) -> Vec<Entry> {
        (0..self.distinct)
            .map(|i| {
                let index = (self.opening + i) % self.distinct;
                Entry {
                    check: index == 0,
                    rest: String::new(),
                    step: step(plan, index, &format!("$full_{index}"), false),
                    passes: vec![],
                    release: if self.lag { "previous" } else { "current" },
                }
            })
            .collect()
    }

    /// One label for every check in the opening; each falls through to the next.
    fn rests(&self, passes: &[Pass]) -> Vec<Rest> {
        let checked = |i: &u32| i.is_multiple_of(self.distinct);
        let first = (1..self.opening).find(checked).unwrap_or(self.opening);
        (first..self.opening)
            .map(|i| Rest { label: format!("$store_rest_{i}"), passes: vec![passes[i as usize].clone()] })
            .collect()
    }
}

/// Turns the item's block count into the number of loop rounds: at least one, for a row without blocks.
fn count(slots: u32, steps: u32) -> Vec<String> {
    let mut lines = vec![];
    if slots > 1 {
        lines.push(format!("add.u32 %r_left, %r_item_blocks, {}", slots - 1));
        lines.push(format!("shr.u32 %r_left, %r_left, {}", slots.trailing_zeros()));
        lines.push("max.u32 %r_left, %r_left, 1".to_owned());
    } else {
        lines.push("max.u32 %r_left, %r_item_blocks, 1".to_owned());
    }
    if steps > 1 {
        lines.push(format!("mul.lo.u32 %r_left, %r_left, {steps}"));
    }
    lines
}

fn release_comment(plan: &BlockRowsPlan) -> String {
    match plan.tiling.cluster {
        1 => "lane 0 of each warp, after its WGMMAs have read the stage.".to_owned(),
        n => format!("lane r of each warp tells CTA r of the {n}, since every CTA's multicast writes every stage."),
    }
}

fn release_setup(plan: &BlockRowsPlan) -> Vec<String> {
    match plan.tiling.cluster {
        1 => vec!["setp.eq.u32 %p_release, %r_lane, 0".to_owned()],
        n => vec![
            format!("setp.lt.u32 %p_release, %r_lane, {n}"),
            format!("and.b32 %r_t, %r_lane, {}", n - 1),
            "mapa.shared::cluster.u32 %r_empty_remote, %r_empty, %r_t".to_owned(),
        ],
    }
}

fn step(plan: &BlockRowsPlan, index: u32, label: &str, first: bool) -> Step {
    let k = &plan.kloop;
    let width = k.width(index);
    let groups = if plan.precision.promoted { promoted(plan, width, first) } else { vec![direct(plan, width, first)] };
    let comment = match (first, k.slots, k.steps) {
        (true, ..) => format!("The first stage of a tile, {} of K, overwrites the accumulators.", width * k.slots),
        (_, 1, 1) => format!("The next block: {width} of K."),
        (_, 1, n) if k.uniform() => format!("The next stage: {width} of K, a block takes {n}."),
        (_, 1, n) => format!("Stage {} of {n} of a block: {width} of K.", index + 1),
        (_, slots, _) => format!("The next stage: {slots} blocks of {width} of K."),
    };
    Step { label: label.to_owned(), comment, groups, factors: scale::read_factors(plan) }
}

/// All products of a stage, added to the tile's accumulators by the tensor core.
fn direct(plan: &BlockRowsPlan, width: u32, first: bool) -> Group {
    let rows = plan.tiling.row_groups();
    let wgmmas = slices(plan, width)
        .flat_map(|(slot, at)| (0..rows).map(move |group| (slot, at, group)))
        .map(|(slot, at, group)| {
            let overwrites = first && (slot, at) == (0, 0);
            wgmma(plan, (slot, at, group), accumulators(plan, group), overwrites)
        })
        .collect();
    Group { wgmmas, promotes: vec![] }
}

/// A stage's products, row group by row group, summed by themselves and added to the tile's accumulators in f32.
fn promoted(plan: &BlockRowsPlan, width: u32, first: bool) -> Vec<Group> {
    let group = |rows: u32| {
        let partials = Partials { first, group: rows };
        let wgmmas = slices(plan, width)
            .map(|(slot, at)| wgmma(plan, (slot, at, rows), partials.list(plan), (slot, at) == (0, 0)))
            .collect();
        Group { wgmmas, promotes: scale::promotions(plan, rows, &partials, first) }
    };
    (0..plan.tiling.row_groups()).map(group).collect()
}

/// The WGMMA-deep slices of a stage: slot, element of K within it.
fn slices(plan: &BlockRowsPlan, width: u32) -> impl Iterator<Item = (u32, u32)> {
    let unit = wgmma_k(plan.spec.a) as usize;
    (0..plan.kloop.slots).flat_map(move |slot| (0..width).step_by(unit).map(move |at| (slot, at)))
}

fn wgmma(plan: &BlockRowsPlan, (slot, at, group): (u32, u32, u32), accumulators: String, overwrites: bool) -> Wgmma {
    let a = slot * plan.a.bytes() + plan.a.k_offset(at) + plan.a.mn_offset(group * 64);
    let b = slot * plan.b.bytes() + plan.b.k_offset(at);
    let mut setup = vec![];
    let b = descriptor("%rd_b", b, &mut setup);
    let a = descriptor("%rd_a", a, &mut setup);
    Wgmma { setup, accumulators, a, b, scale_d: if overwrites { "%p_overwrite" } else { "%p_add" } }
}

fn shape(plan: &BlockRowsPlan) -> String {
    let (n, unit) = (plan.tiling.wg_n, wgmma_k(plan.spec.a));
    match plan.precision.accumulator {
        Dtype::I32 => format!("m64n{n}k{unit}.s32.s8.s8"),
        _ => format!("m64n{n}k{unit}.f32.{}.{}", plan.view.sparse_type, plan.view.dense_type),
    }
}

fn modifiers(plan: &BlockRowsPlan) -> String {
    match (plan.spec.a.bytes(), plan.precision.accumulator) {
        (_, Dtype::I32) => String::new(),
        (1, _) => ", 1, 1".to_owned(),
        _ => {
            let transposed = |tile: &OperandTile| u32::from(tile.major == Major::Mn);
            format!(", 1, 1, {}, {}", transposed(&plan.a), transposed(&plan.b))
        }
    }
}

/// The register that holds `base` + `offset` bytes in descriptor units of 16, and the addition that makes it.
fn descriptor(base: &str, offset: u32, setup: &mut Vec<String>) -> String {
    if offset == 0 {
        return base.to_owned();
    }
    let register = format!("{base}_k");
    setup.push(format!("add.s64 {register}, {base}, {}", offset / 16));
    register
}

/// The name of accumulator `i`.
pub(super) fn accumulator(plan: &BlockRowsPlan, i: u32) -> String {
    match plan.precision.accumulator {
        Dtype::I32 => format!("%r_acc{i}"),
        _ => format!("%f_acc{i}"),
    }
}

fn accumulators(plan: &BlockRowsPlan, group: u32) -> String {
    let count = plan.tiling.wg_n / 2;
    lines((group * count..(group + 1) * count).map(|i| accumulator(plan, i)))
}

/// The sums of one group of WGMMAs, which wait for their promotion. Every group of a step has names of its own, though
/// one set of registers serves all: where groups shared names, ptxas 13.0 took two groups' `part * factor` for one value.
pub(super) struct Partials {
    /// Of the step that begins a tile?
    first: bool,
    /// The group's place in its step.
    group: u32,
}

impl Partials {
    /// The name of sum `i`.
    pub(super) fn name(&self, plan: &BlockRowsPlan, i: u32) -> String {
        let stem = if self.first { "%f_first" } else { "%f_part" };
        format!("{stem}{}", self.group * plan.tiling.partials + i)
    }

    fn list(&self, plan: &BlockRowsPlan) -> String {
        lines((0..plan.tiling.partials).map(|i| self.name(plan, i)))
    }
}

fn lines(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let lines: Vec<String> = names.chunks(PER_LINE).map(|line| line.join(", ")).collect();
    lines.join(",\n          ")
}
