//! Step 1: are the sparsity block and the dense tile sizes that this compiler can plan?

use crate::plan::error::{PlanError, PlanErrors};
use crate::plan::keys::type_key;
use crate::{Dtype, KernelSpec, Layout};

/// Rows that one WGMMA instruction computes.
pub(crate) const WGMMA_M: u32 = 64;
/// Elements of K that one WGMMA instruction consumes: 32 bytes.
pub(crate) const fn wgmma_k(dtype: Dtype) -> u32 {
    32 / dtype.bytes()
}

/// `bk` is a multiple of this: for 16-bit operands a whole WGMMA; rows of 8-bit blocks start on the 16 bytes that TMA
/// asks for, and half a WGMMA is padded with zeros.
const BK_UNIT: u32 = 16;
/// Largest sparsity block and dense tile, along each dimension.
const LARGEST: u32 = 512;

pub(crate) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    if !legal(spec.bm, WGMMA_M) {
        errors.push(not_a_multiple("bm", "block rows", spec.bm, WGMMA_M, "WGMMA computes 64 rows at a time"));
    }
    if !legal(spec.bk, BK_UNIT) {
        let why = match spec.a.bytes() {
            1 => "TMA wants the rows of a block on multiples of 16 bytes",
            _ => "a 16-bit WGMMA consumes 16 elements of K",
        };
        errors.push(not_a_multiple("bk", "block columns", spec.bk, BK_UNIT, why));
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
        if matches!(dtype, Dtype::F32 | Dtype::I32) {
            errors.push(PlanError::new(
                key,
                format!("operand {key} is {dtype}, which WGMMA does not multiply"),
                "WGMMA takes f16, bf16, i8 and FP8",
                format!("{} = f16, or mma = scalar", type_key(spec, key)),
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
    if spec.out == Dtype::I32 && !spec.a.is_integer() {
        errors.push(PlanError::new(
            "out",
            format!("a product of {} matrices is no integer", spec.a),
            "out = i32 is what i8 x i8 sums to",
            format!("out = {}", spec.a.default_out()),
        ));
    }
    if spec.b.bytes() == 1 && spec.b_layout == Layout::RowMajor {
        errors.push(PlanError::new(
            "b_layout",
            format!("B is {} and row-major", spec.b),
            "WGMMA reads 8-bit operands along K only: B[K, N] must lie as [N, K], K contiguous; only 16-bit operands \
             can be transposed on the way",
            "b_layout = col, and transpose B once: `Dense::to_layout`, or the quantise helper, which returns it so",
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
