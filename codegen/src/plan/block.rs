//! Step 1: are the sparsity block and the dense tile sizes that this compiler can plan?

use super::error::{PlanError, PlanErrors};
use crate::{Dtype, KernelSpec};

/// Rows that one WGMMA instruction computes.
pub(crate) const WGMMA_M: u32 = 64;
/// Elements of K that one 16-bit WGMMA instruction consumes (32 bytes).
pub(crate) const WGMMA_K: u32 = 16;
/// Largest sparsity block and dense tile, along each dimension.
const LARGEST: u32 = 512;

pub(crate) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    if !legal(spec.bm, WGMMA_M) {
        errors.push(not_a_multiple("bm", "block rows", spec.bm, WGMMA_M, "WGMMA computes 64 rows at a time"));
    }
    if !legal(spec.bk, WGMMA_K) {
        errors.push(not_a_multiple(
            "bk",
            "block columns",
            spec.bk,
            WGMMA_K,
            "a 16-bit WGMMA consumes 16 elements of K",
        ));
    }
    if !legal_bn(spec.bn) {
        let nearest = nearest(spec.bn, (1..=LARGEST / 16).map(|i| i * 16).filter(|n| legal_bn(*n)));
        errors.push(PlanError::new(
            "bn",
            format!("a dense tile of {} columns cannot be swizzled", spec.bn),
            "a tile is 16 columns or whole boxes of 32, up to 512; beyond 256 two or three consumers divide it into such parts",
            format!("bn = {nearest}"),
        ));
    }
    check_types(spec, errors);
}

fn legal(value: u32, unit: u32) -> bool {
    value > 0 && value.is_multiple_of(unit) && value <= LARGEST
}

fn legal_bn(bn: u32) -> bool {
    let divides = |n: u32| bn.is_multiple_of(n) && whole_boxes(bn / n);
    bn <= LARGEST && whole_boxes(bn) && (bn <= 256 || divides(2) || divides(3))
}

/// Can `columns` be loaded as whole boxes of at least 16 columns, all alike?
pub(crate) fn whole_boxes(columns: u32) -> bool {
    columns == 16 || (columns > 0 && columns.is_multiple_of(32))
}

/// The widest box, up to 64 columns, of which `columns` is a whole number.
pub(crate) fn box_columns(columns: u32) -> u32 {
    [64, 32].into_iter().find(|width| columns.is_multiple_of(*width)).unwrap_or(16)
}

fn check_types(spec: &KernelSpec, errors: &mut PlanErrors) {
    for (key, dtype) in [("a", spec.a), ("b", spec.b)] {
        if dtype == Dtype::F32 {
            errors.push(PlanError::new(
                key,
                format!("operand {key} is f32, which WGMMA does not multiply"),
                "WGMMA takes f16 x f16 or bf16 x bf16 with f32 accumulators",
                format!("{key} = f16, or {key} = bf16"),
            ));
        }
    }
    if spec.a != spec.b {
        errors.push(PlanError::new(
            "b",
            format!("A is {} and B is {}", spec.a, spec.b),
            "one WGMMA instruction multiplies 16-bit operands of the same type",
            format!("b = {}", spec.a),
        ));
    }
    if spec.acc != Dtype::F32 {
        errors.push(PlanError::new(
            "acc",
            format!("accumulators of {} are not planned", spec.acc),
            "sums over thousands of products need f32: f16 has 11 significant bits",
            "acc = f32",
        ));
    }
}

fn not_a_multiple(key: &'static str, what: &str, value: u32, unit: u32, why: &str) -> PlanError {
    let nearest = nearest(value, (1..=LARGEST / unit).map(|i| i * unit));
    let arithmetic = if value > LARGEST {
        format!("{value} > {LARGEST}, the largest block planned")
    } else if value == 0 {
        why.to_owned()
    } else {
        format!("{value} = {} x {unit} + {}; {why}", value / unit, value % unit)
    };
    PlanError::new(key, format!("{what} of {value} are not supported"), arithmetic, format!("{key} = {nearest}"))
}

/// The nearest legal values, below and above: `"448"` or `"48 or 64"`.
fn nearest(value: u32, legal: impl Iterator<Item = u32>) -> String {
    let (mut below, mut above) = (None, None);
    for candidate in legal {
        if candidate <= value {
            below = Some(candidate);
        } else if above.is_none() {
            above = Some(candidate);
        }
    }
    match (below, above) {
        (Some(b), Some(a)) => format!("{b} or {a}"),
        (Some(one), None) | (None, Some(one)) => one.to_string(),
        (None, None) => "none".to_owned(),
    }
}
