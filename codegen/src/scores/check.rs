//! What every attention refuses: keys of products, types that are not planned.

use crate::plan::{PlanError, PlanErrors};
use crate::spec::Key;
use crate::{Dtype, KernelSpec};

/// Keys of other operations on the same instruction. What they say is fixed here, or not planned.
pub(crate) const FOREIGN: [Key; 18] = [
    Key::CtaM,
    Key::Warps,
    Key::Load,
    Key::Transpose,
    Key::Batch,
    Key::Permute,
    Key::ALayout,
    Key::BLayout,
    Key::CLayout,
    Key::Scale,
    Key::Accumulate,
    Key::Cluster,
    Key::Schedule,
    Key::Swizzle,
    Key::Swap,
    Key::Pdl,
    Key::Epilogue,
    Key::Beta,
];

/// Refuses keys of products.
pub(crate) fn check_foreign(spec: &KernelSpec, keys: impl IntoIterator<Item = Key>, errors: &mut PlanErrors) {
    for key in keys.into_iter().filter(|key| spec.says(*key)) {
        errors.push(PlanError::new(
            key.as_str(),
            format!("op = {} has no `{key}`", spec.op),
            format!("`{key}`, {}, applies to products of two matrices", key.meaning()),
            format!("drop `{key}`"),
        ));
    }
}

/// Refuses types that are not planned. `staged` says why the result has the type of Q.
pub(crate) fn check_types(spec: &KernelSpec, result: &str, staged: &str, errors: &mut PlanErrors) {
    let is_planned = |dtype: Dtype| matches!(dtype, Dtype::F16 | Dtype::BF16);
    if let Some((key, dtype)) = [("a", spec.a), ("b", spec.b)].into_iter().find(|(_, dtype)| !is_planned(*dtype)) {
        errors.push(PlanError::new(
            key,
            format!("attention of {dtype} is not supported"),
            "probabilities are the register operand of the second product, in the type of V: f16 or bf16",
            format!("{} = bf16", spec.type_key(key)),
        ));
        return;
    }
    if spec.a != spec.b {
        errors.push(PlanError::new(
            "b",
            format!("Q is {} and K is {}", spec.a, spec.b),
            "one instruction multiplies operands of one type",
            format!("b = {}", spec.a),
        ));
    }
    if spec.out != spec.a {
        errors.push(PlanError::new(
            "out",
            format!("an attention of {} cannot write {result} as {}", spec.a, spec.out),
            staged,
            format!("drop `out`, or out = {}", spec.a),
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
}

/// A score is one value.
pub(crate) fn check_score(spec: &KernelSpec, errors: &mut PlanErrors) {
    let Some(program) = spec.score.map(|score| score.program()) else { return };
    if let Some(reduction) = program.reduction() {
        errors.push(PlanError::new(
            Key::Score.as_str(),
            format!("a score cannot use `{}`", reduction.as_str()),
            "a score is one value for each pair of query and key",
            "end the body with that value",
        ));
    }
}
