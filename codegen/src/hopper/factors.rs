//! What WGMMA asks of its factors, whichever way round a kernel has them.

use crate::plan::{Major, SparseTimesDense};
use crate::plan::{PlanError, PlanErrors};
use crate::{Dtype, KernelSpec, Layout, Op};

/// Both factors are of types that one instruction takes, and summed in the type that it has for them.
pub(crate) fn check_types(spec: &KernelSpec, errors: &mut PlanErrors) {
    for (key, dtype) in [("a", spec.a), ("b", spec.b)] {
        if matches!(dtype, Dtype::F32 | Dtype::I32) {
            errors.push(PlanError::new(
                key,
                format!("operand {key} is {dtype}, which WGMMA does not multiply"),
                "WGMMA takes f16, bf16, i8 and FP8",
                format!("{} = f16{}", spec.type_key(key), if spec.op == Op::Dsd { ", or mma = scalar" } else { "" }),
            ));
        }
    }
    if spec.a != spec.b && !(spec.a.is_fp8() && spec.b.is_fp8()) {
        errors.push(PlanError::new(
            "b",
            format!("A is {} and B is {}", spec.a, spec.b),
            "one WGMMA instruction multiplies operands of the same type, or e4m3 and e5m2 in any mix",
            format!("b = {}", spec.a),
        ));
    }
    if spec.acc != spec.a.accumulator() {
        errors.push(PlanError::new(
            "acc",
            format!("sums of {} products are not kept in {}", spec.a, spec.acc),
            format!("WGMMA adds {} products in {}", spec.a, spec.a.accumulator()),
            format!("acc = {}", spec.a.accumulator()),
        ));
    }
}

/// A sparse operand has no layout, and 8-bit operands lie along K.
pub(crate) fn check_layouts(spec: &KernelSpec, view: &SparseTimesDense, errors: &mut PlanErrors) {
    if spec.op == Op::Dsd && spec.a_layout != Layout::RowMajor {
        errors.push(PlanError::new(
            "a_layout",
            "the A of dsd is sparse",
            "its values lie block after block, row by row within a block",
            "drop `a_layout` (for the transposed product, with transpose = on)",
        ));
    }
    if spec.op == Op::Dds && spec.b_layout != spec.b.default_b_layout() {
        errors.push(PlanError::new(
            "b_layout",
            "the B of dds is sparse",
            "its values lie block after block, row by row within a block",
            "drop `b_layout` (for the product with B transposed, with transpose = on)",
        ));
    }
    if view.dense_type.bytes() == 1 && view.dense == Layout::RowMajor {
        errors.push(match view.transposed {
            false => PlanError::new(
                "b_layout",
                format!("B is {} and row-major", spec.b),
                "WGMMA reads 8-bit operands along K only: B[K, N] must lie as [N, K], K contiguous; only 16-bit \
                 operands can be transposed on the way",
                "b_layout = col, and transpose B once: `Dense::to_layout`, or the quantise helper, which returns it so",
            ),
            true => PlanError::new(
                "a_layout",
                format!("A is {} and column-major", spec.a),
                "WGMMA reads 8-bit operands along K only: the rows of A[M, K] must be contiguous; only 16-bit operands \
                 can be transposed on the way",
                "a_layout = row, and transpose A once: `Dense::to_layout`",
            ),
        });
    }
    if view.sparse_type.bytes() == 1 && view.sparse == Major::Mn {
        let (operand, held) = if view.transposed { ("B", "off") } else { ("A", "on") };
        errors.push(PlanError::new(
            "transpose",
            format!("blocks of {} cannot be read transposed", view.sparse_type),
            format!(
                "WGMMA reads 8-bit operands along K only, and with transpose = {held} the columns of {operand}'s stored \
                 blocks run along K"
            ),
            format!("transpose = {}, with {operand} stored transposed", if view.transposed { "on" } else { "off" }),
        ));
    }
}
