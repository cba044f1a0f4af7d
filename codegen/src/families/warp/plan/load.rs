//! What of a spec does not go with warps that only load.

use super::seen;
use super::units::k_unit;
use super::{doubles, tf32};
use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, KernelSpec, Load, Mma};

pub(crate) fn check(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    if !spec.load.has_roles() {
        return;
    }
    let mut refuse = |fact: String, why: &str, help: &str| errors.push(PlanError::new("load", fact, why, help));
    let load = spec.load;
    if load == Load::Producer && !arch.cp_async {
        refuse(
            format!("{} has no load = {load}", arch.target),
            "cp.async and mbarriers came with sm_80",
            "load = warps, or arch = sm_80",
        );
    }
    if let Some(registers) = spec.maxnreg {
        refuse(
            format!("load = {load} divides the registers itself, and the spec has maxnreg = {registers}"),
            "warps that multiply need more registers than those that load, and `.maxnreg` is of all of them",
            "drop `maxnreg`, or load = warps",
        );
    }
    if load != Load::Tma {
        return;
    }
    if arch.compute_capability != (9, 0) {
        refuse(
            format!("{} has no load = tma in these kernels", arch.target),
            "they load by cp.async.bulk.tensor of sm_90a",
            "arch = sm_90a, or load = warps",
        );
    }
    if spec.mma == Mma::Wmma {
        refuse(
            "load = tma does not take the fragments of wmma".to_owned(),
            "they have one stride, so that a box would be 32 bytes wide: 0.470 of the dense library where all warps reach 0.527",
            "load = producer, or mma = mma_sync",
        );
    }
    if doubles::takes(spec) || tf32::reads_rows(spec) {
        refuse(
            format!("load = tma does not take {} in a row-major B of `mma_sync`", spec.b),
            "threads read it in vectors of several rows, whose places TMA's swizzle does not give",
            "load = producer",
        );
    }
}

/// TMA loads whole instructions of K of a block.
pub(crate) fn check_depth(spec: &KernelSpec, errors: &mut PlanErrors) {
    let unit = k_unit(spec);
    if spec.load == Load::Tma && !spec.bk.is_multiple_of(unit) {
        errors.push(PlanError::new(
            "load",
            format!(
                "load = tma with blocks of {} {}, which are not whole instructions",
                spec.bk,
                if seen::is_along_m(spec) { "rows" } else { "columns" }
            ),
            "an instruction would multiply what TMA loads of B beyond the block",
            "load = producer",
        ));
    }
}
