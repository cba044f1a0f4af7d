//! Names of accumulators, and registers that hold another one plus a constant.

use serde::Serialize;

use super::super::plan::SwapAbPlan;
use crate::Dtype;

/// The accumulators of a consumer thread, and what clears one.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sums {
    names: Vec<String>,
    #[serde(rename = "type")]
    dtype: &'static str,
    zero: &'static str,
}

impl Sums {
    pub(super) fn new(plan: &SwapAbPlan) -> Self {
        let (dtype, zero) = if is_integer(plan) { ("b32", "0") } else { ("f32", "0f00000000") };
        Self { names: accumulators(plan, 0, plan.tile.accumulators()), dtype, zero }
    }
}

/// The names of `count` accumulators from number `first` on.
pub(super) fn accumulators(plan: &SwapAbPlan, first: u32, count: u32) -> Vec<String> {
    let class = if is_integer(plan) { "%r" } else { "%f" };
    (first..first + count).map(|i| format!("{class}_acc{i}")).collect()
}

/// First accumulator of block row `row` and column group `group`.
pub(super) fn first_accumulator(plan: &SwapAbPlan, row: u32, group: u32) -> u32 {
    (row * plan.tile.groups + group) * plan.tile.rows / 2
}

fn is_integer(plan: &SwapAbPlan) -> bool {
    plan.view.sparse_type == Dtype::I8
}

/// The addition that makes a register hold another one plus a constant.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Add {
    to: &'static str,
    base: &'static str,
    by: u32,
}

/// The register that holds `base` + `by`: `base` itself where nothing is added, else `to`, after one of `adds`.
pub(super) fn plus(base: &'static str, by: u32, to: &'static str, adds: &mut Vec<Add>) -> &'static str {
    if by == 0 {
        return base;
    }
    adds.push(Add { to, base, by });
    to
}
