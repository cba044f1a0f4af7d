//! Step 1: operand types and layouts that WGMMA multiplies this way round.

use super::fused;
use crate::hopper::factors;
use crate::plan::SparseTimesDense;
use crate::plan::{PlanError, PlanErrors};
use crate::{Accumulate, Dtype, KernelSpec, Pdl, Scale};

pub(crate) fn check(spec: &KernelSpec, view: &SparseTimesDense, errors: &mut PlanErrors) {
    factors::check_types(spec, errors);
    factors::check_layouts(spec, view, errors);
    check_results(spec, view, errors);
    check_choices(spec, view, errors);
    fused::check(spec, errors);
}

fn check_results(spec: &KernelSpec, view: &SparseTimesDense, errors: &mut PlanErrors) {
    if spec.out == Dtype::I32 && !spec.a.is_integer() {
        errors.push(PlanError::no_integer(spec));
    } else if spec.a.is_integer() && spec.out != Dtype::I32 {
        errors.push(PlanError::new(
            "out",
            format!("sums of i8 products are not written as {} with swap-AB", spec.out),
            "i32 sums are stored as they are",
            "out = i32",
        ));
    } else if spec.out.bytes() == 1 {
        errors.push(PlanError::new(
            "out",
            format!("results in {} are not planned with swap-AB", spec.out),
            "a thread has two neighbours of 64 dense columns by 8, too few for a 16-byte vector of 8-bit values",
            format!("out = bf16, or {} = ?", view.keys.0),
        ));
    }
}

fn check_choices(spec: &KernelSpec, view: &SparseTimesDense, errors: &mut PlanErrors) {
    if matches!(spec.accumulate, Some(accumulate) if accumulate != Accumulate::Fast || !spec.a.is_fp8()) {
        errors.push(PlanError::new(
            "accumulate",
            "sums are kept in the tensor core's own accumulators with swap-AB",
            "promoted sums take as many registers again",
            format!("drop `accumulate`, or {} = ?", view.keys.0),
        ));
    }
    if spec.pdl == Pdl::Early {
        errors.push(PlanError::new(
            "pdl",
            format!("pdl = {} is not planned with swap-AB", spec.pdl),
            "its producer warps fill stages in turn, each with blocks and with dense columns",
            format!("pdl = on, or {} = ?", view.keys.0),
        ));
    }
    if spec.scale != Scale::Unscaled {
        errors.push(PlanError::new(
            "scale",
            "scales are not planned with swap-AB",
            "factors are applied by kernels whose rows are WGMMA's rows",
            format!("scale = none, or {} = ?", view.keys.0),
        ));
    }
    if spec.cluster.is_some_and(|cluster| cluster != 1) {
        errors.push(PlanError::new(
            "cluster",
            "clusters are not planned with swap-AB",
            "block rows of a CTA tile share the dense operand already",
            "cluster = 1",
        ));
    }
    if let Some(swizzle @ ..=127 | swizzle @ 129..) = spec.swizzle {
        errors.push(PlanError::new(
            "swizzle",
            format!("a swizzle of {swizzle} bytes is not a choice with swap-AB"),
            "tiles take the widest span that they fill",
            "drop `swizzle`",
        ));
    }
}
