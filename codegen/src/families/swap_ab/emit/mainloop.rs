//! The consumers' multiply steps: a case for every block row of the tile.

use serde::Serialize;

use super::super::plan::{GROUP, SwapAbPlan};
use super::registers::{Add, accumulators, first_accumulator, plus};
use crate::Dtype;
use crate::plan::Major;

/// Accumulators on one line of an operand list.
const PER_LINE: usize = 16;

/// The mainloop's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Mainloop {
    shape: String,
    /// What follows the predicate of a WGMMA: negations and transpositions, where the type has them.
    modifiers: String,
    /// Bytes from one consumer's columns of a B panel to the next one's.
    dense_stride: u32,
    dense_descriptor: String,
    sparse_descriptor: String,
    cases: Vec<Case>,
}

/// The products of one block with its B panel.
#[derive(Clone, Debug, Serialize)]
struct Case {
    row: u32,
    label: String,
    /// Where the next block row's blocks are multiplied.
    next: String,
    wgmmas: Vec<Wgmma>,
}

#[derive(Clone, Debug, Serialize)]
struct Wgmma {
    adds: Vec<Add>,
    accumulators: String,
    /// The descriptors.
    dense: &'static str,
    sparse: &'static str,
}

impl Mainloop {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        Self {
            shape: shape(plan),
            modifiers: modifiers(plan),
            dense_stride: plan.dense.mn_offset(plan.tile.columns()),
            dense_descriptor: format!("{:#018x}", plan.dense.descriptor()),
            sparse_descriptor: format!("{:#018x}", plan.sparse.descriptor()),
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

fn case(plan: &SwapAbPlan, row: u32) -> Case {
    let label = |row: u32| format!("$block_row_{row}");
    let next = if row + 1 == plan.tile.pack { "$stage_done".to_owned() } else { label(row + 1) };
    let steps = (0..plan.k_slice.held).step_by(plan.unit() as usize);
    let wgmmas = steps.flat_map(|k| (0..plan.tile.groups).map(move |group| wgmma(plan, row, k, group)));
    Case { row, label: label(row), next, wgmmas: wgmmas.collect() }
}

fn wgmma(plan: &SwapAbPlan, row: u32, k: u32, group: u32) -> Wgmma {
    let mut adds = vec![];
    // Descriptors count in units of 16 bytes.
    let dense = (plan.dense.k_offset(k) + plan.dense.mn_offset(group * GROUP)) / 16;
    let dense = plus("%rd_dense", dense, "%rd_dense_k", &mut adds);
    let sparse = plus("%rd_sparse", plan.sparse.k_offset(k) / 16, "%rd_sparse_k", &mut adds);
    let names = accumulators(plan, first_accumulator(plan, row, group), plan.tile.rows / 2);
    let lines: Vec<String> = names.chunks(PER_LINE).map(|line| line.join(", ")).collect();
    Wgmma { adds, accumulators: lines.join(",\n"), dense, sparse }
}
