//! The consumers' multiply steps: a case for every block row of the tile.

use serde::Serialize;

use super::super::plan::{GROUP, SwapAbPlan};
use crate::Dtype;
use crate::plan::Major;

/// Accumulators on one line of an operand list.
const PER_LINE: usize = 16;

/// The consumer's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Consumer {
    item: &'static str,
    shape: String,
    /// What follows the predicate of a WGMMA: negations and transpositions, where the type has them.
    modifiers: String,
    dense_stride: u32,
    dense_descriptor: String,
    sparse_descriptor: String,
    clears: Vec<String>,
    cases: Vec<Case>,
}

/// The products of one block with its slab.
#[derive(Clone, Debug, Serialize)]
struct Case {
    row: u32,
    label: String,
    /// Where the next block row's turn is.
    next: String,
    wgmmas: Vec<Wgmma>,
}

#[derive(Clone, Debug, Serialize)]
struct Wgmma {
    setup: Vec<String>,
    accumulators: String,
    dense: String,
    sparse: String,
}

impl Consumer {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        let columns = plan.tile.groups * GROUP;
        Self {
            item: "{ %r_item_c_row, %r_item_c_col, %r_item_first, %r_item_stages }",
            shape: shape(plan),
            modifiers: modifiers(plan),
            dense_stride: plan.dense.mn_offset(columns),
            dense_descriptor: format!("{:#018x}", plan.dense.descriptor()),
            sparse_descriptor: format!("{:#018x}", plan.sparse.descriptor()),
            clears: (0..plan.tile.accumulators()).map(|i| clear(plan, i)).collect(),
            cases: (0..plan.tile.pack).map(|row| case(plan, row)).collect(),
        }
    }
}

fn shape(plan: &SwapAbPlan) -> String {
    let (n, unit, view) = (plan.tile.rows, plan.unit(), &plan.view);
    match view.sparse_type {
        Dtype::I8 => format!("m64n{n}k{unit}.s32.s8.s8"),
        _ => format!("m64n{n}k{unit}.f32.{}.{}", view.dense_type, view.sparse_type),
    }
}

fn modifiers(plan: &SwapAbPlan) -> String {
    let transposed = |major: Major| u32::from(major == Major::Mn);
    match plan.view.sparse_type {
        Dtype::I8 => String::new(),
        dtype if dtype.is_fp8() => ", 1, 1".to_owned(),
        _ => format!(", 1, 1, {}, {}", transposed(plan.dense.major), transposed(plan.sparse.major)),
    }
}

/// The name of accumulator `i`.
pub(super) fn accumulator(plan: &SwapAbPlan, i: u32) -> String {
    match plan.view.sparse_type {
        Dtype::I8 => format!("%r_acc{i}"),
        _ => format!("%f_acc{i}"),
    }
}

fn clear(plan: &SwapAbPlan, i: u32) -> String {
    let name = accumulator(plan, i);
    match plan.view.sparse_type {
        Dtype::I8 => format!("mov.b32 {name}, 0"),
        _ => format!("mov.f32 {name}, 0f00000000"),
    }
}

/// First accumulator of block row `row` and column group `group`.
pub(super) fn first_accumulator(plan: &SwapAbPlan, row: u32, group: u32) -> u32 {
    (row * plan.tile.groups + group) * plan.tile.rows / 2
}

fn label(row: u32) -> String {
    format!("$block_row_{row}")
}

fn case(plan: &SwapAbPlan, row: u32) -> Case {
    let slices = (0..plan.k_slice.held).step_by(plan.unit() as usize);
    let wgmmas = slices.flat_map(|k| (0..plan.tile.groups).map(move |group| (k, group)));
    let next = if row + 1 == plan.tile.pack { "$stage_done".to_owned() } else { label(row + 1) };
    Case { row, label: label(row), next, wgmmas: wgmmas.map(|(k, group)| wgmma(plan, row, k, group)).collect() }
}

fn wgmma(plan: &SwapAbPlan, row: u32, k: u32, group: u32) -> Wgmma {
    let mut setup = vec![];
    let dense = plan.dense.k_offset(k) + plan.dense.mn_offset(group * GROUP);
    let dense = descriptor("%rd_dense", dense, &mut setup);
    let sparse = descriptor("%rd_sparse", plan.sparse.k_offset(k), &mut setup);
    let first = first_accumulator(plan, row, group);
    let names: Vec<String> = (first..first + plan.tile.rows / 2).map(|i| accumulator(plan, i)).collect();
    let lines: Vec<String> = names.chunks(PER_LINE).map(|line| line.join(", ")).collect();
    Wgmma { setup, accumulators: lines.join(",\n          "), dense, sparse }
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
