//! How a sparsity block's K extent becomes stages: what every family with a pipeline decides in its own way.

use serde::Serialize;

/// The division of K into stages: either a block takes several stages, or a stage takes several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct KLoop {
    /// Elements of K in one sub-stage of a stage; a sub-stage belongs to one block.
    pub(crate) k_step: u32,
    /// Stages that one block takes (1 when a stage gathers blocks).
    pub(crate) steps: u32,
    /// Elements of K that the last of these stages really multiplies.
    pub(crate) last: u32,
    /// Blocks that one stage gathers (1 when a block takes several stages).
    pub(crate) sub_stages: u32,
}

impl KLoop {
    /// A block of `bk` in stages of `k_step`, the last one shorter where they do not come out even.
    pub(crate) fn divide(bk: u32, k_step: u32) -> Self {
        let k_step = k_step.min(bk);
        let steps = bk.div_ceil(k_step);
        Self { k_step, steps, last: bk - (steps - 1) * k_step, sub_stages: 1 }
    }

    /// As few stages of at most `depth` as there can be, as even as whole instructions of `unit` allow: 112 = 64 + 48,
    /// 96 = 48 + 48.
    pub(crate) fn divide_evenly(bk: u32, depth: u32, unit: u32) -> Self {
        Self::divide(bk, bk.div_ceil(unit).div_ceil(bk.div_ceil(depth)) * unit)
    }

    /// `sub_stages` blocks a stage.
    pub(crate) fn gather(bk: u32, sub_stages: u32) -> Self {
        Self { k_step: bk, steps: 1, last: bk, sub_stages }
    }

    /// Elements of K that step `step` of a block multiplies.
    pub(crate) fn width(&self, step: u32) -> u32 {
        if step + 1 == self.steps { self.last } else { self.k_step }
    }

    /// Elements of K from one sub-stage of a stage to the next: whole instructions of `unit`.
    pub(crate) fn pitch(&self, unit: u32) -> u32 {
        self.k_step.next_multiple_of(unit)
    }

    /// Does the last instruction of a block reach beyond the block, with `unit` elements of K an instruction?
    pub(crate) fn padded(&self, unit: u32) -> bool {
        !self.last.is_multiple_of(unit)
    }

    /// Are all steps of a block equal, so that one loop body serves them all?
    pub(crate) fn uniform(&self) -> bool {
        self.last == self.k_step
    }

    /// Stages of a block that have their own code: all, unless they are equal.
    pub(crate) fn distinct(&self) -> u32 {
        if self.uniform() { 1 } else { self.steps }
    }
}
