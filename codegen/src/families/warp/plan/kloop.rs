//! How a sparsity block's K extent becomes stages.

use super::seen;
use super::units::k_unit;
use crate::plan::{KLoop, PlanError};
use crate::{KernelSpec, Load, Op};

/// Bytes of K that a stage holds when the plan decides: a whole row of shared memory's banks.
pub(crate) const DEEP: u32 = 128;
/// The same where too few deep stages fit.
pub(crate) const SHALLOW: u32 = 64;
/// Most bytes of K that a stage may hold: the lanes of a warp copy one row of A.
const DEEPEST: u32 = 512;
/// Most blocks that one stage gathers.
const MOST_BLOCKS: u32 = 4;

/// `depth_bytes` is what a stage should hold when `k_step` is left to the plan.
pub(crate) fn plan(spec: &KernelSpec, depth_bytes: u32) -> Result<KLoop, PlanError> {
    let (bk, unit, depth) = (spec.bk, k_unit(spec), depth_bytes / spec.a.bytes());
    let padded = bk.next_multiple_of(unit);
    match spec.k_step {
        // Both factors are dense, and K is not divided into blocks.
        None if spec.op == Op::Sdd => Ok(KLoop::divide(depth, depth)),
        None if padded <= depth / 2 => Ok(KLoop::gather(bk, 1 << (depth / padded).min(MOST_BLOCKS).ilog2())),
        // A panel of TMA has whole rows of shared memory's banks, whatever is used of them.
        None if spec.load == Load::Tma => Ok(KLoop::divide(bk, depth)),
        None => Ok(KLoop::divide_evenly(bk, depth, unit)),
        Some(k) if u64::from(k) * u64::from(spec.a.bytes()) > u64::from(DEEPEST) => Err(PlanError::new(
            "k_step",
            format!("a stage of {k} elements of K is too deep"),
            format!("{k} x {} B > {DEEPEST} B, a 16-byte vector for every lane of a warp", spec.a.bytes()),
            format!("k_step = {}", bk.min(depth)),
        )),
        Some(k) if k == bk && spec.op != Op::Sdd => Ok(KLoop::divide(bk, k)),
        Some(k) if k == 0 || !k.is_multiple_of(unit) => Err(PlanError::new(
            "k_step",
            format!("k_step = {k} is not a whole number of instructions"),
            format!(
                "{} on {} takes {unit} elements of K; {k} = {} x {unit} + {}",
                spec.mma,
                spec.a,
                k / unit,
                k % unit
            ),
            format!("k_step = {}", (k / unit * unit).max(unit)),
        )),
        Some(k) if spec.op == Op::Sdd => Ok(KLoop::divide(k, k)),
        Some(k) if k <= bk => Ok(KLoop::divide(bk, k)),
        Some(k) if k % bk == 0 && k / bk <= MOST_BLOCKS && (k / bk).is_power_of_two() && gathers(spec) => {
            Ok(KLoop::gather(bk, k / bk))
        }
        Some(k) => Err(PlanError::new(
            "k_step",
            format!("a stage of {k} is not a whole number of blocks"),
            format!(
                "{} = {bk}: {k} / {bk} = {:.2}; a stage has 2 or 4 blocks of 16 or 32",
                if seen::is_along_m(spec) { "bm" } else { "bk" },
                f64::from(k) / f64::from(bk)
            ),
            format!("k_step = {bk}"),
        )),
    }
}

/// Rows of B of several blocks are in one stage, and a pass of the copy must not straddle two of them.
fn gathers(spec: &KernelSpec) -> bool {
    spec.a.bytes() == 1 || 32 % spec.bk == 0
}
