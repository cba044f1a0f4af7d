//! The registers of a tile's sums.

use super::super::plan::BlockRowsPlan;
use crate::hopper::split_k::Exchange;
use crate::hopper::wgmma::{Sums, register_list};

/// The registers of the tile's accumulators.
pub(super) fn sums(plan: &BlockRowsPlan) -> Sums {
    Sums { stem: "acc", dtype: plan.precision.accumulator }
}

/// How the accumulators of a part of a tile's K go to the workspace and come from it.
pub(super) fn exchange(plan: &BlockRowsPlan) -> Option<Exchange> {
    let count = plan.accumulators();
    plan.spec.split.is_on().then(|| Exchange::new("tile", "%p_store_lead", sums(plan), count, plan.arch.warpgroup))
}

/// The sums of one group of WGMMAs, which wait for their promotion. Every group of a step has names of its own, though
/// one set of registers serves all: where groups shared names, ptxas 13.0 took two groups' `part * factor` for one value.
pub(super) struct Partials {
    /// Of the step that begins a tile?
    first: bool,
    /// The group's place in its step.
    group: u32,
    count: u32,
}

impl Partials {
    pub(super) fn new(plan: &BlockRowsPlan, first: bool, group: u32) -> Self {
        Self { first, group, count: plan.tiling.partials }
    }

    /// The name of sum `i`.
    pub(super) fn name(&self, i: u32) -> String {
        let stem = if self.first { "%f_first" } else { "%f_part" };
        format!("{stem}{}", self.group * self.count + i)
    }

    /// All of them, as an operand list.
    pub(super) fn list(&self) -> String {
        register_list((0..self.count).map(|i| self.name(i)))
    }
}
