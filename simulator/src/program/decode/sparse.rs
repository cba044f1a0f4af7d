//! The metadata of a sparse A.

use super::super::context::Context;
use super::super::op::Sparse;
use super::super::types::Ty;
use crate::parse::Parsed;

/// Operand `at` and the next one: the metadata of a sparse A of `k` elements in a row, and the selector.
pub(super) fn metadata(cx: &mut Context<'_>, at: usize, ty: Ty, k: u32, ordered: bool) -> Parsed<Sparse> {
    let [metadata] = cx.src_regs(at, Ty::B32)?[..] else {
        return cx.error(cx.operand(at)?.span, "the metadata of a sparse matrix is one register");
    };
    let mut sparse = Sparse { metadata, ty, k, selector: 0, ordered };
    let (selector, most) = (cx.imm(at + 1)?, 4 / sparse.threads() - 1);
    if selector > u64::from(most) {
        let text = format!("the sparsity selector of .{} and k = {k} is 0 to {most}; {selector} is not", ty.name());
        return cx.error(cx.operand(at + 1)?.span, text);
    }
    sparse.selector = selector as u32;
    Ok(sparse)
}
