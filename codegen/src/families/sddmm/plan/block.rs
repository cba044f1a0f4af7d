//! Step 1: are the block, the tile and the types such that this family can plan them?

use crate::hopper::factors;
use crate::plan::{PlanError, PlanErrors};
use crate::{Accumulate, Dtype, KernelSpec, Layout, Op, Pdl, Scale, Schedule, Switch};

/// Sides of a block are multiples of this: 8 columns of accumulators, and 16 bytes of a 16-bit result.
const UNIT: u32 = 8;
/// Largest block along each dimension.
const LARGEST: u32 = 512;
/// Widest tile: what one WGMMA computes.
const WIDEST: u32 = 256;

pub(crate) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    for (key, what, value) in [("bm", "block rows", spec.bm), ("bk", "block columns", spec.bk)] {
        if value == 0 || value > LARGEST || !value.is_multiple_of(UNIT) {
            let nearest = (value / UNIT * UNIT).clamp(UNIT, LARGEST);
            errors.push(PlanError::new(
                key,
                format!("{what} of {value} are not supported"),
                format!("blocks of an SDDMM are multiples of {UNIT} up to {LARGEST}, as TMA and WGMMA want"),
                format!("{key} = {nearest}"),
            ));
        }
    }
    if spec.bn == 0 || spec.bn > WIDEST || !spec.bn.is_multiple_of(UNIT) {
        let nearest = (spec.bn / UNIT * UNIT).clamp(UNIT, WIDEST);
        errors.push(PlanError::new(
            "bn",
            format!("a tile of {} columns is not planned", spec.bn),
            format!("bn is how many columns of stored blocks a CTA tile gathers: a multiple of {UNIT} up to {WIDEST}"),
            format!("bn = {nearest}"),
        ));
    }
    check_types(spec, errors);
    check_layouts(spec, errors);
    check_keys(spec, errors);
    check_split(spec, errors);
}

fn check_types(spec: &KernelSpec, errors: &mut PlanErrors) {
    factors::check_types(spec, errors);
    let written = match spec.out {
        Dtype::F16 | Dtype::BF16 | Dtype::F32 => true,
        Dtype::I32 => spec.a.is_integer(),
        _ => false,
    };
    if !written {
        errors.push(PlanError::new(
            "out",
            format!("an SDDMM of {} is not written as {}", spec.a, spec.out),
            "a block is stored as f16, bf16 or f32, sums of i8 as i32 too",
            format!("out = {}", if spec.a.bytes() == 2 { spec.a } else { Dtype::BF16 }),
        ));
    }
}

fn check_layouts(spec: &KernelSpec, errors: &mut PlanErrors) {
    let why = "WGMMA reads 8-bit operands along K only, and K of A[M, K] is contiguous in rows, of B[K, N] in columns";
    if spec.a.bytes() == 1 && spec.a_layout != Layout::RowMajor {
        let fact = format!("A is {} and column-major", spec.a);
        errors.push(PlanError::new("a_layout", fact, why, "a_layout = row, and `Dense::to_layout` once"));
    }
    if spec.b.bytes() == 1 && spec.b_layout != Layout::ColMajor {
        let fact = format!("B is {} and row-major", spec.b);
        errors.push(PlanError::new("b_layout", fact, why, "b_layout = col, and `Dense::to_layout` once"));
    }
    if spec.c_layout != Layout::RowMajor {
        errors.push(PlanError::new(
            "c_layout",
            "C of an SDDMM has no layout",
            "it is stored in blocks, row by row within a block; transpose = on stores the blocks of C^T",
            "drop `c_layout`",
        ));
    }
}

/// Keys that mean something to other operations alone, or are not planned here.
fn check_keys(spec: &KernelSpec, errors: &mut PlanErrors) {
    let op = Op::Sdd;
    if spec.scale != Scale::Unscaled {
        errors.push(PlanError::new(
            "scale",
            format!("op = {op} with scale = {} is not planned", spec.scale),
            "factors are applied to tiles of a dense result",
            "drop `scale`, and scale A or B",
        ));
    }
    if let Some(accumulate) = spec.accumulate
        && !(accumulate == Accumulate::Fast && spec.a.is_fp8())
    {
        errors.push(PlanError::new(
            "accumulate",
            format!("op = {op} with accumulate = {accumulate} is not planned"),
            "sums of an SDDMM stay in the tensor core's registers",
            "drop `accumulate`",
        ));
    }
    if spec.cluster.is_some_and(|cluster| cluster != 1) {
        errors.push(PlanError::new(
            "cluster",
            format!("op = {op} in clusters is not planned"),
            "tiles of one block row share A already, and tiles of different lengths would wait for each other",
            "drop `cluster`",
        ));
    }
    if spec.swap == Some(Switch::On) {
        errors.push(PlanError::new(
            "swap",
            format!("op = {op} has no operands to swap"),
            "both factors are dense; transpose = on exchanges them, and stores the blocks of C^T",
            "drop `swap`",
        ));
    }
    check_batch(spec, errors);
    let depth = super::operand::SPAN / spec.a.bytes();
    if let Some(k_step) = spec.k_step.filter(|k_step| *k_step != depth) {
        errors.push(PlanError::new(
            "k_step",
            format!("stages of {k_step} of K are not planned for op = {op}"),
            format!("K is divided into stages of one swizzle span, 128 bytes: {depth} elements of {}", spec.a),
            format!("k_step = {depth}, or drop `k_step`"),
        ));
    }
    if let Some(swizzle) = spec.swizzle.filter(|swizzle| *swizzle != super::operand::SPAN) {
        errors.push(PlanError::new(
            "swizzle",
            format!("a swizzle of {swizzle} bytes is not planned for op = {op}"),
            "stages are one span of 128 bytes deep",
            "swizzle = 128, or drop `swizzle`",
        ));
    }
}

/// An SDDMM says with `schedule` that CTAs share K.
fn check_split(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.pdl == Pdl::Early {
        errors.push(PlanError::new(
            "pdl",
            format!("pdl = {} is not planned for op = {}", spec.pdl, spec.op),
            "both factors are dense: the kernels before this one may still be writing either",
            "pdl = on",
        ));
    }
    if spec.split.is_on() {
        errors.push(PlanError::new(
            "split",
            format!("split = {} is not planned for op = {}", spec.split, spec.op),
            "an SDDMM divides the K of its last tiles with schedule = balanced",
            "schedule = balanced, or drop `split`",
        ));
    }
}

/// A list of problems: whole tiles of each.
fn check_batch(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.batch.is_on() && spec.schedule == Some(Schedule::Balanced) {
        errors.push(PlanError::new(
            "schedule",
            "CTAs do not share K in a list of SDDMM problems",
            "a list of many problems has whole tiles enough for every CTA, and sums of parts would need a workspace a \
             problem",
            "drop `schedule`",
        ));
    }
}
