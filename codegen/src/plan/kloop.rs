//! Step 4: how a sparsity block's K extent becomes pipeline stages.

use super::block::WGMMA_K;
use super::error::{PlanError, PlanErrors};
use crate::KernelSpec;

/// Elements of K that a stage holds when the plan decides: one 128-byte swizzle span of 16-bit elements.
pub(crate) const DEEP: u32 = 64;
/// The same where too few deep stages fit.
pub(crate) const SHALLOW: u32 = 32;
/// Most blocks that one stage gathers.
const MOST_BLOCKS: u32 = 8;

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

    /// Are all steps of a block alike, so that one loop body serves them all?
    pub(crate) fn uniform(&self) -> bool {
        self.last == self.k_step
    }
}

/// `depth` is what a stage should hold when `k_step` is left to the plan.
pub(crate) fn plan(spec: &KernelSpec, depth: u32, errors: &mut PlanErrors) -> KLoop {
    let bk = spec.bk;
    match spec.k_step {
        None if bk <= depth / 2 => gather(bk, depth / bk),
        None => {
            // As few stages as the depth allows, as even as units of 16 allow: 112 = 64 + 48, 96 = 48 + 48.
            let steps = bk.div_ceil(depth);
            divide(bk, (bk / WGMMA_K).div_ceil(steps) * WGMMA_K)
        }
        Some(k) if k == 0 || k % WGMMA_K != 0 => {
            errors.push(PlanError::new(
                "k_step",
                format!("a k_step of {k} is not a whole number of WGMMA steps"),
                format!("a 16-bit WGMMA consumes 16 elements of K; {k} = {} x 16 + {}", k / 16, k % 16),
                format!("k_step = {}", (k / 16 * 16).max(16)),
            ));
            divide(bk, bk.min(depth))
        }
        Some(k) if k <= bk => divide(bk, k),
        Some(k) if k % bk == 0 && k / bk <= MOST_BLOCKS && (k / bk).is_power_of_two() => gather(bk, k / bk),
        Some(k) => {
            errors.push(PlanError::new(
                "k_step",
                format!("a stage of {k} cannot hold a whole number of blocks"),
                format!(
                    "bk = {bk}: {k} / {bk} = {:.2}; 1, 2, 4 or {MOST_BLOCKS} blocks a stage",
                    f64::from(k) / f64::from(bk)
                ),
                format!("k_step = {}", (1 << (k / bk).clamp(1, MOST_BLOCKS).ilog2()) * bk),
            ));
            divide(bk, bk.min(depth))
        }
    }
}

fn divide(bk: u32, k_step: u32) -> KLoop {
    let steps = bk.div_ceil(k_step);
    KLoop { k_step, steps, last: bk - (steps - 1) * k_step, slots: 1 }
}

fn gather(bk: u32, slots: u32) -> KLoop {
    KLoop { k_step: bk, steps: 1, last: bk, slots }
}
