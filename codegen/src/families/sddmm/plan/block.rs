//! Step 1: are the block, the tile and the types such that this family can plan them?

use crate::hopper::factors;
use crate::plan::{PlanError, PlanErrors};
use crate::spec::Key;
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
                format!("TMA and WGMMA require blocks of an SDDMM to be multiples of {UNIT} up to {LARGEST}"),
                format!("{key} = {nearest}"),
            ));
        }
    }
    if spec.bn == 0 || spec.bn > WIDEST || !spec.bn.is_multiple_of(UNIT) {
        let nearest = (spec.bn / UNIT * UNIT).clamp(UNIT, WIDEST);
        errors.push(PlanError::new(
            "bn",
            format!("a tile of {} columns is not supported", spec.bn),
            format!(
                "`bn` is the number of columns of stored blocks in a CTA tile: a multiple of {UNIT} up to {WIDEST}"
            ),
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
            format!("an SDDMM of {} cannot write {}", spec.a, spec.out),
            "blocks are stored as f16, bf16 or f32, and sums of i8 also as i32",
            format!("out = {}", if spec.a.bytes() == 2 { spec.a } else { Dtype::BF16 }),
        ));
    }
}

fn check_layouts(spec: &KernelSpec, errors: &mut PlanErrors) {
    let why = |what| format!("WGMMA reads {what} along K only: A[M, K] must be row-major and B[K, N] column-major");
    if let Some(what) = factors::along_k(spec, spec.a).filter(|_| spec.a_layout != Layout::RowMajor) {
        let fact = format!("A is {} and column-major", spec.a);
        errors.push(PlanError::new("a_layout", fact, why(what), "a_layout = row, and `Dense::to_layout` once"));
    }
    if let Some(what) = factors::along_k(spec, spec.b).filter(|_| spec.b_layout != Layout::ColMajor) {
        let fact = format!("B is {} and row-major", spec.b);
        errors.push(PlanError::new("b_layout", fact, why(what), "b_layout = col, and `Dense::to_layout` once"));
    }
    if spec.c_layout != Layout::RowMajor {
        errors.push(PlanError::new(
            "c_layout",
            "C of an SDDMM has no layout",
            "C is stored in blocks, row by row within a block; transpose = on stores the blocks of C^T",
            "drop `c_layout`",
        ));
    }
}

/// Keys that mean something to other operations alone, or are not supported here.
fn check_keys(spec: &KernelSpec, errors: &mut PlanErrors) {
    let op = Op::Sdd;
    if spec.scale != Scale::Unscaled {
        errors.push(PlanError::new(
            "scale",
            format!("op = {op} with scale = {} is not supported", spec.scale),
            "scale factors are applied to tiles of a dense result",
            "drop `scale`, and multiply A or B by the factors",
        ));
    }
    if let Some(accumulate) = spec.accumulate
        && !(accumulate == Accumulate::Fast && spec.a.is_fp8())
    {
        errors.push(PlanError::new(
            "accumulate",
            format!("op = {op} with accumulate = {accumulate} is not supported"),
            "an SDDMM accumulates in the accumulators of the tensor cores",
            "drop `accumulate`",
        ));
    }
    for key in [Key::CtaM, Key::Warps].into_iter().filter(|key| spec.says(*key)) {
        errors.push(PlanError::new(
            key.as_str(),
            format!("op = {op} has no `{key}`"),
            "a consumer has 64 rows: a tile of blocks of more has 128 rows and two consumers along M, else 64",
            format!("drop `{key}`"),
        ));
    }
    if spec.acc == Dtype::F16 {
        errors.push(PlanError::new(
            "acc",
            format!("op = {op} with acc = {} is not supported", spec.acc),
            "a consumer has 64 rows of at most 256 columns: their f32 sums fit its registers, and f16 would allow no larger tile",
            "acc = f32",
        ));
    }
    if spec.cluster.is_some_and(|cluster| cluster != 1) {
        errors.push(PlanError::new(
            "cluster",
            format!("op = {op} in clusters is not supported"),
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
            format!("stages of {k_step} of K are not supported for op = {op}"),
            format!("a stage is one swizzle span of 128 bytes deep: {depth} elements of {}", spec.a),
            format!("k_step = {depth}, or drop `k_step`"),
        ));
    }
    if let Some(swizzle) = spec.swizzle.filter(|swizzle| *swizzle != super::operand::SPAN) {
        errors.push(PlanError::new(
            "swizzle",
            format!("a swizzle of {swizzle} bytes is not supported for op = {op}"),
            "a stage is one swizzle span of 128 bytes deep",
            "swizzle = 128, or drop `swizzle`",
        ));
    }
}

/// An SDDMM says with `schedule` that CTAs share K.
fn check_split(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.pdl == Pdl::Early {
        errors.push(PlanError::new(
            "pdl",
            format!("pdl = {} is not supported for op = {}", spec.pdl, spec.op),
            "both factors are dense, and earlier kernels may still be writing either",
            "pdl = on",
        ));
    }
    if spec.split.is_on() {
        errors.push(PlanError::new(
            "split",
            format!("split = {} is not supported for op = {}", spec.split, spec.op),
            "with schedule = balanced an SDDMM divides the K of its last tiles by itself",
            "schedule = balanced, or drop `split`",
        ));
    }
}

/// A list of problems: whole tiles of each.
fn check_batch(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.batch.is_on() && spec.schedule == Some(Schedule::Balanced) {
        errors.push(PlanError::new(
            "schedule",
            "the K of tiles cannot be divided in a list of SDDMM problems",
            "a list has enough whole tiles for every CTA, and split-K partials would need a workspace per problem",
            "drop `schedule`",
        ));
    }
}
