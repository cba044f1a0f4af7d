//! Which way factors may lie in memory: a sparse one has no layout, and `ldmatrix` transposes 16-bit elements alone.

use crate::plan::{PlanError, PlanErrors};
use crate::{Dtype, KernelSpec, Layout, Op};

use super::seen;

pub(crate) fn check(spec: &KernelSpec, seen: &KernelSpec, errors: &mut PlanErrors) {
    if spec.op == Op::Dsd && spec.a_layout != Layout::RowMajor {
        errors.push(no_layout("a_layout", "A", spec));
    }
    if spec.op == Op::Dds && spec.b_layout != spec.b.default_b_layout() {
        errors.push(no_layout("b_layout", "B", spec));
    }
    if seen.b.bytes() == 1 && seen.b_layout == Layout::RowMajor {
        errors.push(match spec.op {
            Op::Dds => PlanError::new(
                "a_layout",
                format!("A is {} and column-major", seen.b),
                "8-bit operands are multiplied along K only: the rows of A[M, K] must be contiguous; ldmatrix transposes only 16-bit elements",
                "a_layout = row, and transpose A once: `Dense::to_layout`",
            ),
            _ => PlanError::new(
                "b_layout",
                format!("B is {} and row-major", spec.b),
                "8-bit operands are multiplied along K only: B[K, N] must be stored as [N, K], K contiguous; ldmatrix transposes only 16-bit elements",
                "b_layout = col, and transpose B once: `Dense::to_layout`",
            ),
        });
    }
    if seen::is_along_m(seen) && seen.a.bytes() != 2 && seen.a != Dtype::I32 {
        let (operand, held, otherwise) = if spec.op == Op::Dds { ("B", "off", "on") } else { ("A", "on", "off") };
        errors.push(PlanError::new(
            "transpose",
            format!("blocks of {} cannot be read transposed", seen.a),
            format!(
                "ldmatrix transposes only 16-bit elements, and with transpose = {held} the columns of {operand}'s stored \
                 blocks run along K"
            ),
            format!("transpose = {otherwise}, with {operand} stored transposed"),
        ));
    }
}

fn no_layout(key: &'static str, operand: &str, spec: &KernelSpec) -> PlanError {
    PlanError::new(
        key,
        format!("with op = {} {operand} is sparse and has no layout", spec.op),
        "its values are stored block after block, row by row within a block",
        format!("drop `{key}` (for the product with {operand} transposed, with transpose = on)"),
    )
}
