//! Step 4: how a sparsity block's K extent becomes pipeline stages.

use super::Tiling;
use super::tiling::FULL;
use crate::hopper::wgmma_k;
use crate::plan::KLoop;
use crate::plan::SparseTimesDense;
use crate::plan::{PlanError, PlanErrors};
use crate::{Accumulate, KernelSpec, Scale};

/// Bytes of K that a stage holds when the plan decides: one swizzle span.
pub(crate) const DEEP: u32 = 128;
/// The same where too few deep stages fit.
pub(crate) const SHALLOW: u32 = 64;
/// Most blocks that one stage gathers: each takes registers of the producer, more so where its B has a tensor map to
/// choose; and one with factors of its own is promoted by itself, of which two in a row take more registers of a consumer
/// than there are. Of pairs that are promoted each block has two places to load from. Blocks that end within a WGMMA have
/// instructions of their own: where promoted sums fill a consumer of two row groups, ptxas 13.0 spills with four of them.
fn most_blocks(spec: &KernelSpec, view: &SparseTimesDense, tiling: &Tiling) -> u32 {
    let is_promoted = spec.accumulate == Some(Accumulate::Promoted);
    let is_full = tiling.row_groups() > 1 && tiling.accumulators(spec.acc) >= FULL;
    let is_plain = spec.scale == Scale::Unscaled && !spec.batch.is_on();
    match (spec.scale, view.depth.is_multiple_of(wgmma_k(spec.a))) {
        (Scale::Block, _) => 1,
        (_, false) if is_promoted && is_full && is_plain => 2,
        _ if spec.op.is_of_pairs() && is_promoted => 2,
        (_, true) => 8,
        (_, false) => 4,
    }
}

/// `depth_bytes` is what a stage should hold when `k_step` is left to the plan.
pub(crate) fn plan(
    spec: &KernelSpec,
    view: &SparseTimesDense,
    tiling: &Tiling,
    depth_bytes: u32,
    errors: &mut PlanErrors,
) -> KLoop {
    let most_blocks = most_blocks(spec, view, tiling);
    let (bk, unit, depth) = (view.depth, wgmma_k(spec.a), depth_bytes / spec.a.bytes());
    match spec.k_step {
        None if bk <= depth / 2 && spec.pack.is_none() => KLoop::gather(bk, 1 << (depth / bk).min(most_blocks).ilog2()),
        None => KLoop::divide_evenly(bk, depth, unit),
        Some(k) if k == bk => KLoop::divide(bk, k),
        Some(k) if k == 0 || k % unit != 0 => {
            errors.push(PlanError::new(
                "k_step",
                format!("k_step = {k} is not a multiple of the K of a WGMMA"),
                format!(
                    "a WGMMA of {} multiplies {unit} elements of K; {k} = {} x {unit} + {}",
                    spec.a,
                    k / unit,
                    k % unit
                ),
                format!("k_step = {}", (k / unit * unit).max(unit)),
            ));
            KLoop::divide(bk, bk.min(depth))
        }
        Some(k) if k <= bk => KLoop::divide(bk, k),
        Some(k) if k % bk == 0 && k / bk <= most_blocks && (k / bk).is_power_of_two() => KLoop::gather(bk, k / bk),
        Some(k) => {
            errors.push(PlanError::new(
                "k_step",
                format!("a stage of {k} is not a whole number of blocks"),
                format!(
                    "{} = {bk}: {k} / {bk} = {:.2}; {} a stage",
                    view.keys.1,
                    f64::from(k) / f64::from(bk),
                    match most_blocks {
                        8 => "1, 2, 4 or 8 blocks",
                        4 => "1, 2 or 4 blocks",
                        2 => "1 or 2 blocks",
                        _ => "1 block with its own factors",
                    }
                ),
                format!("k_step = {}", (1 << (k / bk).clamp(1, most_blocks).ilog2()) * bk),
            ));
            KLoop::divide(bk, bk.min(depth))
        }
    }
}
