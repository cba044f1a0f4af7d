//! The requirements of WGMMA on its factors, in either order.

use crate::plan::{Major, SparseTimesDense};
use crate::plan::{PlanError, PlanErrors, check_factors};
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
    check_factors(spec, "WGMMA", errors);
}

/// A sparse operand has no layout, and 8-bit operands are contiguous along K.
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
    if view.dense_type.bytes() == 1 && view.dense == Layout::RowMajor {
        errors.push(match view.transposed {
            false => PlanError::new(
                "b_layout",
                format!("B is {} and row-major", spec.b),
                "WGMMA reads 8-bit operands along K only: B[K, N] must be stored as [N, K], K contiguous; only 16-bit operands can be transposed during the load",
                "b_layout = col, and transpose B once: `Dense::to_layout`, or quantise it with the quantise helper, which returns this layout",
            ),
            true => PlanError::new(
                "a_layout",
                format!("A is {} and column-major", spec.a),
                "WGMMA reads 8-bit operands along K only: the rows of A[M, K] must be contiguous; only 16-bit operands can be transposed during the load",
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
