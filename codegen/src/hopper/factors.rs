//! The requirements of WGMMA on its factors, in either order.

use super::wgmma::is_read_along_k;
use crate::plan::{Major, SparseTimesDense};
use crate::plan::{PlanError, PlanErrors, check_factors};
use crate::{Dtype, KernelSpec, Layout, Op};

/// Both factors are of types that one instruction takes, and summed in the type that it has for them.
pub(crate) fn check_types(spec: &KernelSpec, errors: &mut PlanErrors) {
    for (key, dtype) in [("a", spec.a), ("b", spec.b)] {
        let along_k = if spec.b_layout == Layout::RowMajor { " and b_layout = col" } else { "" };
        let or_scalar = if spec.op == Op::Dsd { ", or mma = scalar" } else { "" };
        let (fact, why, help) = match dtype {
            Dtype::F32 if spec.tf32.is_on() => continue,
            Dtype::F32 => (
                format!("operand {key} is f32, which WGMMA multiplies with 11 significant bits alone"),
                "tensor cores round f32 factors to TF32; a spec says that this may be",
                format!("tf32 = on{along_k}{or_scalar}, or {} = f16", spec.type_key(key)),
            ),
            Dtype::I32 => (
                format!("operand {key} is {dtype}, which WGMMA does not multiply"),
                "WGMMA takes f16, bf16, TF32, i8 and FP8",
                format!("{} = f16{or_scalar}", spec.type_key(key)),
            ),
            _ => continue,
        };
        errors.push(PlanError::new(key, fact, why, help));
    }
    check_factors(spec, "WGMMA", errors);
}

/// Factors of a type that WGMMA reads along K alone, in words. f32 that is not TF32 is refused by type.
pub(crate) fn along_k(spec: &KernelSpec, factor: Dtype) -> Option<&'static str> {
    let words = match factor {
        Dtype::F32 if spec.tf32.is_on() => "TF32",
        Dtype::F32 => return None,
        _ => "8-bit operands",
    };
    is_read_along_k(factor).then_some(words)
}

/// A sparse operand has no layout, and 8-bit operands and TF32 are contiguous along K.
pub(crate) fn check_layouts(spec: &KernelSpec, view: &SparseTimesDense, errors: &mut PlanErrors) {
    if spec.op == Op::Dsd && spec.a_layout != Layout::RowMajor {
        errors.push(PlanError::new(
            "a_layout",
            "with op = dsd A is sparse and has no layout",
            "its values are stored block after block, row by row within a block",
            "drop `a_layout` (for the transposed product, with transpose = on)",
        ));
    }
    if spec.op == Op::Dds && spec.b_layout != spec.b.default_b_layout() {
        errors.push(PlanError::new(
            "b_layout",
            "with op = dds B is sparse and has no layout",
            "its values are stored block after block, row by row within a block",
            "drop `b_layout` (for the product with B transposed, with transpose = on)",
        ));
    }
    if let Some(what) = along_k(spec, view.dense_type).filter(|_| view.dense == Layout::RowMajor) {
        let otherwise = match spec.b {
            Dtype::F32 => ", or mma = mma_sync",
            _ => ", or quantise it with the quantise helper, which returns this layout",
        };
        errors.push(match view.transposed {
            false if spec.op.is_of_pairs() => PlanError::new(
                "b_layout",
                format!("the blocks of B are {}, stored row by row", spec.b),
                format!("WGMMA reads {what} along K only: a block of bk x bn must be stored column by column, K contiguous"),
                "b_layout = col, and `DeviceBsr::upload_in` with that layout",
            ),
            false => PlanError::new(
                "b_layout",
                format!("B is {} and row-major", spec.b),
                format!(
                    "WGMMA reads {what} along K only: B[K, N] must be stored as [N, K], K contiguous; only 16-bit operands can be transposed during the load"
                ),
                format!("b_layout = col, and transpose B once: `Dense::to_layout`{otherwise}"),
            ),
            true => PlanError::new(
                "a_layout",
                format!("A is {} and column-major", spec.a),
                format!(
                    "WGMMA reads {what} along K only: the rows of A[M, K] must be contiguous; only 16-bit operands can be transposed during the load"
                ),
                "a_layout = row, and transpose A once: `Dense::to_layout`",
            ),
        });
    }
    if let Some(what) = along_k(spec, view.sparse_type).filter(|_| view.sparse == Major::Mn) {
        let (operand, held) = if view.transposed { ("B", "off") } else { ("A", "on") };
        errors.push(PlanError::new(
            "transpose",
            format!("blocks of {} cannot be read transposed", view.sparse_type),
            format!(
                "WGMMA reads {what} along K only, and with transpose = {held} the columns of {operand}'s stored \
                 blocks run along K"
            ),
            format!("transpose = {}, with {operand} stored transposed", if view.transposed { "on" } else { "off" }),
        ));
    }
}
