//! What kernels of 8-bit operands need beside the others: e4m3, V by columns, factors.
//!
//! WGMMA reads 8-bit operands along K alone (PTX ISA, "wgmma.mma_async": transposition is for 16-bit types). K of the second
//! product are keys, so V is given with the keys of a column side by side, `[problems, heads, columns, keys]`, in the order of
//! [`AttentionTiles::key_of_place`](crate::plan::AttentionTiles::key_of_place).

use crate::plan::{PlanError, PlanErrors};
use crate::spec::{Key, Scale};
use crate::{Dtype, KernelSpec};

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
    if let Some(page) = spec.page {
        errors.push(PlanError::new(
            Key::Page.as_str(),
            format!("pages of {page} keys are not supported for {}", spec.a),
            "WGMMA reads 8-bit operands along K alone, so the columns of V would be the rows of a page",
            "drop `page`, or dtype = bf16",
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
