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
            format!("swap-AB cannot write sums of i8 products as {}", spec.out),
            "i32 sums are stored as they are",
            "out = i32",
        ));
    } else if spec.out.bytes() == 1 {
        errors.push(PlanError::new(
            "out",
            format!("results in {} are not supported with swap-AB", spec.out),
            "a thread has pairs of neighbouring elements, too few for a 16-byte vector of 8-bit values",
            format!("out = bf16, or {} = ?", view.keys.0),
        ));
    }
}

fn check_choices(spec: &KernelSpec, view: &SparseTimesDense, errors: &mut PlanErrors) {
    if matches!(spec.accumulate, Some(accumulate) if accumulate != Accumulate::Fast || !spec.a.is_fp8()) {
        errors.push(PlanError::new(
            "accumulate",
            "swap-AB accumulates in the tensor cores' accumulators only",
            "promoted sums need twice the registers",
            format!("drop `accumulate`, or {} = ?", view.keys.0),
        ));
    }
    if spec.pdl == Pdl::Early {
        errors.push(PlanError::new(
            "pdl",
            format!("pdl = {} is not supported with swap-AB", spec.pdl),
            "each producer warp fills whole stages, with blocks and with dense columns",
            format!("pdl = on, or {} = ?", view.keys.0),
        ));
    }
    if spec.scale != Scale::Unscaled {
        errors.push(PlanError::new(
            "scale",
            "scales are not supported with swap-AB",
            "scale factors are applied by kernels in which the rows of blocks are the rows of WGMMA",
            format!("scale = none, or {} = ?", view.keys.0),
        ));
    }
    if let Some(rows) = spec.cta_m {
        errors.push(PlanError::new(
            "cta_m",
            format!("tiles of {rows} rows are not supported with swap-AB"),
            "a tile has `pack` block rows, or a slice of one whose rows are N of a WGMMA",
            "drop `cta_m`, or pack = ?",
        ));
    }
    if let Some((m, n)) = spec.warps {
        errors.push(PlanError::new(
            "warps",
            format!("a layout of {m} x {n} warps is not supported with swap-AB"),
            "the dense columns are divided among the consumers: 64 or more each, of all rows",
            "drop `warps`",
        ));
    }
    if spec.cluster.is_some_and(|cluster| cluster != 1) {
        errors.push(PlanError::new(
            "cluster",
            "clusters are not supported with swap-AB",
            "the block rows of a CTA tile already share the dense operand",
            "cluster = 1",
        ));
    }
    if let Some(swizzle @ ..=127 | swizzle @ 129..) = spec.swizzle {
        errors.push(PlanError::new(
            "swizzle",
            format!("swizzle = {swizzle} is not supported with swap-AB"),
            "each tile has the widest swizzle span that it fills",
            "drop `swizzle`",
        ));
    }
}
