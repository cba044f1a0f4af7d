//! The consumers' multiply steps: descriptors, accumulator lists, the order of a tile's stages.

use serde::Serialize;

use crate::plan::{Major, Plan, Split, WGMMA_K};

/// Accumulators on one line of an operand list.
const PER_LINE: u32 = 16;

/// One stage's worth of WGMMAs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    label: String,
    comment: String,
    wgmmas: Vec<Wgmma>,
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
    transpose_b: u32,
    a_stride: u32,
    b_stride: u32,
    a_descriptor: String,
    b_descriptor: String,
    row_stride: u32,
    col_stride: u32,
    item: &'static str,
    count: Vec<String>,
    shifts: Vec<String>,
    release_comment: String,
    release_setup: Vec<String>,
    release_base: &'static str,
    release_op: &'static str,
    first: Step,
    before: Vec<Step>,
    after: Step,
}

impl Consumer {
    pub(super) fn new(plan: &Plan) -> Self {
        let (a, b, t) = (&plan.a, &plan.b, &plan.tiling);
        let (row_stride, col_stride) = match t.split {
            Split::Rows => (t.wg_m, 0),
            Split::Columns => (0, t.wg_n),
        };
        let k = &plan.kloop;
        let (before, counted) = if k.uniform() {
            (vec![], k.steps)
        } else {
            ((1..k.steps).map(|s| step(plan, s, &format!("$full_{s}"), false)).collect(), 1)
        };
        Self {
            shape: format!("m64n{}k16.f32.{}.{}", t.wg_n, plan.spec.a, plan.spec.b),
            transpose_b: u32::from(b.major == Major::Mn),
            a_stride: a.mn_offset(row_stride),
            b_stride: b.mn_offset(col_stride),
            a_descriptor: format!("{:#018x}", a.descriptor()),
            b_descriptor: format!("{:#018x}", b.descriptor()),
            row_stride,
            col_stride,
            item: "{ %r_item_c_row, %r_item_c_col, %r_item_a_row, %r_item_blocks }",
            count: count(k.slots, counted),
            shifts: super::context::output_shifts(plan),
            release_comment: release_comment(plan),
            release_setup: release_setup(plan),
            release_base: if t.cluster > 1 { "%r_empty_remote" } else { "%r_empty" },
            release_op: if t.cluster > 1 {
                "mbarrier.arrive.shared::cluster.b64"
            } else {
                "mbarrier.arrive.shared::cta.b64"
            },
            first: step(plan, 0, "$full_first", true),
            before,
            after: step(plan, 0, "$full_0", false),
        }
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

fn release_comment(plan: &Plan) -> String {
    match plan.tiling.cluster {
        1 => "lane 0 of each warp, after its WGMMAs have read the stage.".to_owned(),
        n => format!("lane r of each warp tells CTA r of the {n}, since every CTA's multicast writes every stage."),
    }
}

fn release_setup(plan: &Plan) -> Vec<String> {
    match plan.tiling.cluster {
        1 => vec!["setp.eq.u32 %p_release, %r_lane, 0".to_owned()],
        n => vec![
            format!("setp.lt.u32 %p_release, %r_lane, {n}"),
            format!("and.b32 %r_t, %r_lane, {}", n - 1),
            "mapa.shared::cluster.u32 %r_empty_remote, %r_empty, %r_t".to_owned(),
        ],
    }
}

fn step(plan: &Plan, index: u32, label: &str, first: bool) -> Step {
    let k = &plan.kloop;
    let width = k.width(index);
    let mut wgmmas = vec![];
    let mut fresh = first;
    for slot in 0..k.slots {
        for at in (0..width).step_by(WGMMA_K as usize) {
            let a = slot * plan.a.bytes() + plan.a.k_offset(at);
            let b = slot * plan.b.bytes() + plan.b.k_offset(at);
            let mut setup = vec![];
            let b_register = descriptor("%rd_b", b, &mut setup);
            for group in 0..plan.tiling.row_groups() {
                let a = a + plan.a.mn_offset(group * 64);
                let a_register = descriptor("%rd_a", a, &mut setup);
                wgmmas.push(Wgmma {
                    setup: std::mem::take(&mut setup),
                    accumulators: accumulators(plan, group),
                    a: a_register,
                    b: b_register.clone(),
                    scale_d: if fresh { "%p_overwrite" } else { "%p_add" },
                });
            }
            fresh = false;
        }
    }
    let comment = match (first, k.slots, k.steps) {
        (true, ..) => format!("The first stage of a tile, {} of K, overwrites the accumulators.", width * k.slots),
        (_, 1, 1) => format!("The next block: {width} of K."),
        (_, 1, n) if k.uniform() => format!("The next stage: {width} of K, a block takes {n}."),
        (_, 1, n) => format!("Stage {} of {n} of a block: {width} of K.", index + 1),
        (_, slots, _) => format!("The next stage: {slots} blocks of {width} of K."),
    };
    Step {
        label: label.to_owned(),
        comment,
        wgmmas,
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

fn accumulators(plan: &Plan, group: u32) -> String {
    let count = plan.tiling.wg_n / 2;
    let names: Vec<String> = (group * count..(group + 1) * count).map(|i| format!("%f_acc{i}")).collect();
    let lines: Vec<String> = names.chunks(PER_LINE as usize).map(|line| line.join(", ")).collect();
    lines.join(",\n          ")
}
