//! How a sparsity block's K extent becomes stages.

use super::block::k_unit;
use crate::KernelSpec;
use crate::plan::error::PlanError;

/// Bytes of K that a stage holds when the plan decides: a whole row of shared memory's banks.
pub(super) const DEEP: u32 = 128;
/// The same where too few deep stages fit.
pub(super) const SHALLOW: u32 = 64;
/// Most bytes of K that a stage may hold: the lanes of a warp copy one row of A.
const DEEPEST: u32 = 512;
/// Most blocks that one stage gathers.
const MOST_BLOCKS: u32 = 4;

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

    /// Stages of a block that have code of their own: all, unless they are alike.
    pub(crate) fn distinct(&self) -> u32 {
        if self.last == self.k_step { 1 } else { self.steps }
    }

    /// Elements of K from one slot of a stage to the next: whole instructions.
    pub(crate) fn pitch(&self, unit: u32) -> u32 {
        self.k_step.next_multiple_of(unit)
    }
}

/// `depth_bytes` is what a stage should hold when `k_step` is left to the plan.
pub(super) fn plan(spec: &KernelSpec, depth_bytes: u32) -> Result<KLoop, PlanError> {
    let (bk, unit, depth) = (spec.bk, k_unit(spec), depth_bytes / spec.a.bytes());
    let padded = bk.next_multiple_of(unit);
    match spec.k_step {
        None if padded <= depth / 2 => Ok(gather(bk, 1 << (depth / padded).min(MOST_BLOCKS).ilog2())),
        None => {
            // As few stages as the depth allows, as even as whole instructions allow: 112 = 64 + 48, 96 = 48 + 48.
            let steps = bk.div_ceil(depth);
            Ok(divide(bk, bk.div_ceil(unit).div_ceil(steps) * unit))
        }
        Some(k) if u64::from(k) * u64::from(spec.a.bytes()) > u64::from(DEEPEST) => Err(PlanError::new(
            "k_step",
            format!("a stage of {k} elements of K is too deep"),
            format!("{k} x {} B > {DEEPEST} B, a 16-byte piece for every lane of a warp", spec.a.bytes()),
            format!("k_step = {}", bk.min(depth)),
        )),
        Some(k) if k == bk => Ok(divide(bk, k)),
        Some(k) if k == 0 || !k.is_multiple_of(unit) => Err(PlanError::new(
            "k_step",
            format!("a k_step of {k} is no whole number of instructions"),
            format!(
                "{} on {} takes {unit} elements of K; {k} = {} x {unit} + {}",
                spec.mma,
                spec.a,
                k / unit,
                k % unit
            ),
            format!("k_step = {}", (k / unit * unit).max(unit)),
        )),
        Some(k) if k <= bk => Ok(divide(bk, k)),
        Some(k) if k % bk == 0 && k / bk <= MOST_BLOCKS && (k / bk).is_power_of_two() && gathers(spec) => {
            Ok(gather(bk, k / bk))
        }
        Some(k) => Err(PlanError::new(
            "k_step",
            format!("a stage of {k} does not hold a whole number of blocks"),
            format!(
                "bk = {bk}: {k} / {bk} = {:.2}; a stage gathers 2 or 4 blocks of 16 or 32",
                f64::from(k) / f64::from(bk)
            ),
            format!("k_step = {bk}"),
        )),
    }
}

/// Rows of B of several blocks lie in one stage, and a pass of the copy must not straddle two of them.
fn gathers(spec: &KernelSpec) -> bool {
    spec.a.bytes() == 1 || 32 % spec.bk == 0
}

fn divide(bk: u32, k_step: u32) -> KLoop {
    let k_step = k_step.min(bk);
    let steps = bk.div_ceil(k_step);
    KLoop { k_step, steps, last: bk - (steps - 1) * k_step, slots: 1 }
}

fn gather(bk: u32, slots: u32) -> KLoop {
    KLoop { k_step: bk, steps: 1, last: bk, slots }
}
