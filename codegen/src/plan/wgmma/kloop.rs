//! Step 4: how a sparsity block's K extent becomes pipeline stages.

use super::block::wgmma_k;
use crate::plan::error::{PlanError, PlanErrors};
use crate::{KernelSpec, Scale};

/// Bytes of K that a stage holds when the plan decides: one swizzle span.
pub(crate) const DEEP: u32 = 128;
/// The same where too few deep stages fit.
pub(crate) const SHALLOW: u32 = 64;
/// Most blocks that one stage gathers: each takes registers of the producer, more so where its B has a tensor map to
/// choose; and one with factors of its own is promoted by itself, of which two in a row take more registers of a consumer
/// than there are.
fn most_blocks(spec: &KernelSpec) -> u32 {
    match (spec.scale, spec.bk.is_multiple_of(wgmma_k(spec.a))) {
        (Scale::Block, _) => 1,
        (_, true) => 8,
        (_, false) => 4,
    }
}

/// The walk along K: either a block takes several stages, or a stage takes several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KLoop {
    /// Elements of K in one slot of a stage; a slot belongs to one block.
    pub(crate) k_step: u32,
    /// Stages that one block takes (1 when a stage gathers blocks).
    pub(crate) steps: u32,
    /// Elements of K that the last of these stages really multiplies.
    pub(crate) last: u32,
    /// Blocks that one stage gathers (1 when a block takes several stages).
    pub(crate) slots: u32,
}

impl KLoop {
    /// Elements of K that step `step` of a block multiplies.
    pub(crate) fn width(&self, step: u32) -> u32 {
        if step + 1 == self.steps { self.last } else { self.k_step }
    }

    /// Does the last WGMMA of a block reach beyond the block, with `unit` elements of K a WGMMA?
    pub(crate) fn padded(&self, unit: u32) -> bool {
        !self.last.is_multiple_of(unit)
    }

    /// Are all steps of a block alike, so that one loop body serves them all?
    pub(crate) fn uniform(&self) -> bool {
        self.last == self.k_step
    }
}

/// `depth_bytes` is what a stage should hold when `k_step` is left to the plan.
pub(crate) fn plan(spec: &KernelSpec, depth_bytes: u32, errors: &mut PlanErrors) -> KLoop {
    let (bk, unit, depth) = (spec.bk, wgmma_k(spec.a), depth_bytes / spec.a.bytes());
    match spec.k_step {
        None if bk <= depth / 2 => gather(bk, 1 << (depth / bk).min(most_blocks(spec)).ilog2()),
        None => {
            // As few stages as the depth allows, as even as whole WGMMAs allow: 112 = 64 + 48, 96 = 48 + 48.
            let steps = bk.div_ceil(depth);
            divide(bk, (bk.div_ceil(unit)).div_ceil(steps) * unit)
        }
        Some(k) if k == bk => divide(bk, k),
        Some(k) if k == 0 || k % unit != 0 => {
            errors.push(PlanError::new(
                "k_step",
                format!("a k_step of {k} is not a whole number of WGMMA steps"),
                format!(
                    "a WGMMA of {} consumes {unit} elements of K; {k} = {} x {unit} + {}",
                    spec.a,
                    k / unit,
                    k % unit
                ),
                format!("k_step = {}", (k / unit * unit).max(unit)),
            ));
            divide(bk, bk.min(depth))
        }
        Some(k) if k <= bk => divide(bk, k),
        Some(k) if k % bk == 0 && k / bk <= most_blocks(spec) && (k / bk).is_power_of_two() => gather(bk, k / bk),
        Some(k) => {
            errors.push(PlanError::new(
                "k_step",
                format!("a stage of {k} cannot hold a whole number of blocks"),
                format!(
                    "bk = {bk}: {k} / {bk} = {:.2}; {} a stage",
                    f64::from(k) / f64::from(bk),
                    match most_blocks(spec) {
                        8 => "1, 2, 4 or 8 blocks",
                        4 => "1, 2 or 4 blocks",
                        _ => "1 block with factors of its own",
                    }
                ),
                format!("k_step = {}", (1 << (k / bk).clamp(1, most_blocks(spec)).ilog2()) * bk),
            ));
            divide(bk, bk.min(depth))
        }
    }
}

fn divide(bk: u32, k_step: u32) -> KLoop {
    let k_step = k_step.min(bk);
    let steps = bk.div_ceil(k_step);
    KLoop { k_step, steps, last: bk - (steps - 1) * k_step, slots: 1 }
}

fn gather(bk: u32, slots: u32) -> KLoop {
    KLoop { k_step: bk, steps: 1, last: bk, slots }
}
