//! What kernels of 8-bit operands need beside the others: e4m3, V by columns, factors.
//!
//! WGMMA reads 8-bit operands along K alone (PTX ISA, "wgmma.mma_async": transposition is for 16-bit types). K of the second
//! product are keys, so V is given with the keys of a column side by side, `[problems, heads, columns, keys]`, in the order of
//! [`AttentionTiles::key_of_place`](crate::plan::AttentionTiles::key_of_place).

use crate::plan::{PlanError, PlanErrors};
use crate::spec::{Key, Scale};
use crate::{Dtype, KernelSpec};

/// Keys of the smallest page: the least line of a swizzled panel.
const LEAST_PAGE: u32 = 32;

/// Refuses what is not planned with 8-bit operands.
pub(super) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    if let Some((key, dtype)) = [("a", spec.a), ("b", spec.b)].into_iter().find(|(_, dtype)| *dtype != Dtype::E4M3) {
        errors.push(PlanError::new(
            key,
            format!("attention of {} and {} is not supported", spec.a, spec.b),
            format!("Q, K, V and the probabilities have one type, e4m3 where they have 8 bits, and not {dtype}"),
            format!("{} = e4m3", spec.type_key(key)),
        ));
    }
    if !matches!(spec.out, Dtype::BF16 | Dtype::F16) {
        errors.push(PlanError::new(
            "out",
            format!("an attention of {} cannot write O as {}", spec.a, spec.out),
            "O is staged by stmatrix, in 16 bits",
            "out = bf16",
        ));
    }
    if spec.acc != Dtype::F32 {
        errors.push(PlanError::new(
            "acc",
            format!("scores cannot be accumulated in {}", spec.acc),
            "a softmax is computed in f32",
            "acc = f32",
        ));
    }
    if let Some(page) = spec.page.filter(|page| *page < LEAST_PAGE) {
        errors.push(PlanError::new(
            Key::Page.as_str(),
            format!("pages of {page} keys are not supported for {}", spec.a),
            format!(
                "V is read by columns, [pages, heads, columns, keys of a page], in lines of {LEAST_PAGE} keys of one page or more"
            ),
            format!("page = {LEAST_PAGE}"),
        ));
    }
    if spec.page.is_some() && spec.scale == Scale::Block {
        errors.push(PlanError::new(
            Key::Scale.as_str(),
            format!("scale = {} is not supported for keys in pages", spec.scale),
            "factors of blocks are those of the keys of a problem in their order, which a page table changes",
            "scale = tensor, or drop `page`",
        ));
    }
    if spec.scale == Scale::RowCol {
        errors.push(PlanError::new(
            Key::Scale.as_str(),
            format!("scale = {} is not supported for op = {}", spec.scale, spec.op),
            "the factors of Q, K and V are those of the tensors or of each of their heads, `tensor`, or of each of their blocks, `block`",
            "scale = block",
        ));
    }
}
