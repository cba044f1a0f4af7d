//! The consumers' multiply steps: what a stage's WGMMAs are, and in which order stages come.

use serde::Serialize;

use super::super::plan::{BlockRowsPlan, Split};
use super::sums::{Partials, sums};
use super::{scale, store};
use crate::hopper::mainloop::{Group, Guard, Mainloop, Order, Release, Stage};
use crate::hopper::wgmma::{At, Descriptors, Wgmma, modifiers, shape};
use crate::hopper::{WGMMA_M, wgmma_k};

/// The consumer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Consumer {
    descriptors: Descriptors,
    /// The distance between the consumers' parts of the tile.
    row_stride: u32,
    col_stride: u32,
    release_comment: String,
    /// Blocks that a stage gathers, as a number, a power of two and the number less one; stages of a block that one count
    /// of the loop stands for.
    sub_stages: u32,
    sub_stages_shift: u32,
    counted: u32,
}

impl Consumer {
    pub(super) fn new(plan: &BlockRowsPlan) -> Self {
        let (k, t) = (&plan.kloop, &plan.tiling);
        let (row_stride, col_stride) = match t.split {
            Split::Rows => (t.wg_m, 0),
            Split::Columns => (0, t.wg_n),
        };
        Self {
            descriptors: Descriptors::new((&plan.a, &plan.b), (row_stride, col_stride)),
            // Block rows that share a tile are anywhere in C.
            row_stride: if t.pack > 1 { 0 } else { row_stride },
            col_stride,
            release_comment: match t.cluster {
                1 => "lane 0 of each warp, after its WGMMAs have read the stage.".to_owned(),
                n => {
                    format!(
                        "lane r of each warp signals CTA r of the {n}, since the multicast of each CTA writes every stage."
                    )
                }
            },
            sub_stages: k.sub_stages,
            sub_stages_shift: k.sub_stages.trailing_zeros(),
            counted: if k.uniform() { k.steps } else { 1 },
        }
    }
}

/// The order of a tile's stages.
pub(super) fn mainloop(plan: &BlockRowsPlan, subtiles: &[store::Subtile]) -> Mainloop<store::Subtile> {
    let (t, e) = (&plan.tiling, &plan.epilogue);
    let order = Order {
        suffix: "",
        overlapped: if e.overlapped { e.subtiles() } else { 0 },
        distinct: plan.kloop.distinct(),
        lag: t.roles.consumers == 1 && !plan.precision.promoted,
        release: Release::new(t.cluster > 1),
        // A part of a tile for another cluster has no epilogue.
        requests: e.has_tile && !plan.spec.split.is_on(),
    };
    let (a, b) = (plan.view.sparse_type, plan.view.dense_type);
    let instruction = (shape(plan.instruction_n(), plan.spec.acc, (a, b)), modifiers(a, (plan.a.major, plan.b.major)));
    Mainloop::new(&order, instruction, subtiles, |index, label, first| stage(plan, index, label, first))
}

fn stage(plan: &BlockRowsPlan, index: u32, label: String, first: bool) -> Stage {
    let k = &plan.kloop;
    let width = k.width(index);
    let groups = match (plan.has_quadrants(), plan.precision.promoted) {
        (true, _) => super::quadrants::groups(plan, width, &label),
        (false, true) => promoted(plan, width, first),
        (false, false) => vec![direct(plan, width, first)],
    };
    let comment = match (first, k.sub_stages, k.steps) {
        (true, ..) => format!("The first stage of a tile, {} of K, overwrites the accumulators.", width * k.sub_stages),
        (_, 1, 1) => format!("The next block: {width} of K."),
        (_, 1, n) if k.uniform() => format!("The next stage: {width} of K, one of {n} per block."),
        (_, 1, n) => format!("Stage {} of {n} of a block: {width} of K.", index + 1),
        (_, sub_stages, _) => format!("The next stage: {sub_stages} blocks of {width} of K."),
    };
    let reader = if plan.tiling.cluster > 1 { ("%r_rank", "%p_own") } else { ("0", "%p_release") };
    let quadrants = plan.has_quadrants().then(|| super::quadrants::stage(plan, reader, &label));
    let guard = (plan.tiling.pack > 1 && !plan.has_quadrants()).then(|| Guard {
        skip: label.replace("$full", "$skip"),
        join: label.replace("$full", "$join"),
        reader,
    });
    Stage { label: Some(label), comment, groups, guard, quadrants, factors: scale::stage_factors(plan) }
}

/// All products of a stage, added to the tile's accumulators by the tensor core.
fn direct(plan: &BlockRowsPlan, width: u32, first: bool) -> Group {
    let (rows, count) = (plan.tiling.row_groups(), plan.spec.acc.registers(plan.tiling.wg_n / 2));
    let wgmmas = slices(plan, width)
        .flat_map(|(sub_stage, at)| (0..rows).map(move |group| (sub_stage, at, group)))
        .map(|(sub_stage, at, group)| {
            let accumulators = sums(plan).list(group * count..(group + 1) * count);
            let place = place(plan, sub_stage, at, group);
            match (plan.tiling.pack > 1, (sub_stage, at) == (0, 0)) {
                (true, true) => Wgmma::after_first(accumulators, place),
                (_, is_first) => Wgmma::new(accumulators, place, first && is_first),
            }
        })
        .collect();
    Group { wgmmas, promotions: vec![], guard: None }
}

/// A stage's products, row group by row group, summed by themselves and added to the tile's accumulators in f32.
fn promoted(plan: &BlockRowsPlan, width: u32, first: bool) -> Vec<Group> {
    let group = |rows: u32| {
        let partials = Partials::new(plan, first, rows);
        let wgmmas = slices(plan, width)
            .map(|(sub_stage, at)| {
                Wgmma::new(partials.list(), place(plan, sub_stage, at, rows), (sub_stage, at) == (0, 0))
            })
            .collect();
        Group { wgmmas, promotions: scale::promotions(plan, rows, &partials, first), guard: None }
    };
    (0..plan.tiling.row_groups()).map(group).collect()
}

/// The WGMMA-deep slices of a stage: sub-stage, element of K within it.
fn slices(plan: &BlockRowsPlan, width: u32) -> impl Iterator<Item = (u32, u32)> {
    let unit = wgmma_k(plan.spec.a) as usize;
    (0..plan.kloop.sub_stages).flat_map(move |sub_stage| (0..width).step_by(unit).map(move |at| (sub_stage, at)))
}

/// Where the operands of slice `at` of a sub-stage begin, A's at a group of rows.
fn place(plan: &BlockRowsPlan, sub_stage: u32, at: u32, group: u32) -> At {
    At {
        a: sub_stage * plan.a.bytes() + plan.a.k_offset(at) + plan.a.mn_offset(group * WGMMA_M),
        b: sub_stage * plan.b.bytes() + plan.b.k_offset(at),
    }
}
