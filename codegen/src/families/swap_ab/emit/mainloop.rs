//! The consumers' multiply steps: a case for every block row of the tile.

use serde::Serialize;

use super::super::plan::{GROUP, SwapAbPlan};
use crate::hopper::split_k::Exchange;
use crate::hopper::tma::{Offset, offset};
use crate::hopper::wgmma::{Descriptors, Sums, modifiers, shape};

/// The accumulators of a consumer thread, and what clears one.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ClearedSums {
    names: Vec<String>,
    #[serde(rename = "type")]
    dtype: &'static str,
    zero: &'static str,
}

impl ClearedSums {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        let sums = sums(plan);
        let (dtype, zero) = if sums.is_f32() { ("f32", "0f00000000") } else { ("b32", "0") };
        Self { names: (0..plan.tile.accumulators(plan.spec.acc)).map(|i| sums.name(i)).collect(), dtype, zero }
    }
}

/// The tile's accumulators.
pub(super) fn sums(plan: &SwapAbPlan) -> Sums {
    Sums { stem: "acc", dtype: plan.spec.acc }
}

/// How the accumulators of a part of a tile's K go to the workspace and come from it.
pub(super) fn exchange(plan: &SwapAbPlan) -> Option<Exchange> {
    let count = plan.tile.accumulators(plan.spec.acc);
    plan.spec.split.is_on().then(|| Exchange::new("tile", "%p_store", sums(plan), count, plan.arch.warpgroup))
}

/// The mainloop's part of the context.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Mainloop {
    shape: String,
    modifiers: String,
    descriptors: Descriptors,
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

/// One instruction: WGMMA's A is the dense operand, its B the sparse one.
#[derive(Clone, Debug, Serialize)]
struct Wgmma {
    adds: Vec<Offset>,
    accumulators: String,
    /// The descriptors.
    dense: String,
    sparse: String,
}

impl Mainloop {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        let view = &plan.view;
        Self {
            shape: shape(plan.tile.rows, plan.spec.acc, (view.dense_type, view.sparse_type)),
            modifiers: modifiers(view.sparse_type, (plan.dense.major, plan.sparse.major)),
            descriptors: Descriptors::new((&plan.dense, &plan.sparse), (plan.tile.columns(), 0)),
            cases: (0..plan.tile.pack).map(|row| case(plan, row)).collect(),
        }
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
    let dense = offset("%rd_dense", dense, "%rd_dense_k", &mut adds);
    let sparse = offset("%rd_sparse", plan.sparse.k_offset(k) / 16, "%rd_sparse_k", &mut adds);
    let acc = plan.spec.acc;
    let [first, count] = [plan.tile.first_sum(row, group), plan.tile.rows / 2].map(|sums| acc.registers(sums));
    Wgmma { adds, accumulators: sums(plan).list(first..first + count), dense, sparse }
}
