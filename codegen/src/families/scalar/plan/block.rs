//! Step 1: are the block, the types and the layouts those of a kernel that this family has?

use crate::plan::{PlanError, PlanErrors};
use crate::spec::Target;
use crate::{Accumulate, Arch, Dtype, KernelSpec, Layout};

/// Largest sparsity block and dense tile, along each dimension.
const LARGEST: u32 = 512;
/// `bm` and `bk` are multiples of this: the least that a warp of the vector kernel has along M.
const UNIT: u32 = 8;
/// `bn` is a multiple of this: half a warp, side by side.
const COLUMNS: u32 = 16;
/// Bytes of the widest load.
const LOAD_BYTES: u32 = 16;

pub(crate) fn check(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    check_types(spec, errors);
    check_method(spec, arch, errors);
    let (bk_unit, why) = match is_vector(spec) {
        true => {
            let unit = 2 * LOAD_BYTES / spec.a.bytes();
            (unit, format!("a stage is two 16-byte loads per row of A, {unit} elements of {}", spec.a))
        }
        false => (UNIT, "a stage has 8 or 16 of K".to_owned()),
    };
    for (key, what, value, unit, why) in [
        ("bm", "block rows", spec.bm, UNIT, "each thread has a multiple of 8 rows".to_owned()),
        ("bk", "block columns", spec.bk, bk_unit, why),
        ("bn", "dense tile columns", spec.bn, COLUMNS, "a warp spans 16 or 32 threads along N".to_owned()),
    ] {
        if value == 0 || !value.is_multiple_of(unit) || value > LARGEST {
            errors.push(PlanError::size(key, what, value, (unit, LARGEST), &why));
        }
    }
}

fn is_vector(spec: &KernelSpec) -> bool {
    spec.vector.is_some_and(|vector| vector > 1)
}

fn check_types(spec: &KernelSpec, errors: &mut PlanErrors) {
    for (key, dtype) in [("a", spec.a), ("b", spec.b)] {
        if !is_float(dtype) {
            errors.push(PlanError::new(
                key,
                format!("operand {key} is {dtype}, which scalar kernels do not support"),
                "scalar kernels take f16, bf16 and f32; 8-bit types are supported on tensor cores only",
                format!("{} = f16, or mma = wgmma", spec.type_key(key)),
            ));
        }
    }
    if spec.a != spec.b {
        errors.push(PlanError::new(
            "b",
            format!("A is {} and B is {}", spec.a, spec.b),
            "one multiply-add takes operands of the same type",
            format!("b = {}", spec.a),
        ));
    }
    if spec.acc != Dtype::F32 && is_float(spec.a) {
        errors.push(PlanError::new(
            "acc",
            format!("sums cannot be accumulated in {}", spec.acc),
            "scalar kernels sum in f32",
            "acc = f32",
        ));
    }
    if !is_float(spec.out) && is_float(spec.a) {
        errors.push(PlanError::new(
            "out",
            format!("results cannot be written as {}", spec.out),
            "scalar kernels write f16, bf16 and f32",
            "out = f32",
        ));
    }
    for (key, operand, layout) in [("b_layout", "B", spec.b_layout), ("c_layout", "C", spec.c_layout)] {
        if layout == Layout::ColMajor && is_float(spec.a) {
            errors.push(PlanError::new(
                key,
                format!("{operand} is column-major"),
                format!(
                    "neighbouring threads read neighbouring columns; in a column-major {operand} each thread would read its own cache line"
                ),
                format!("{key} = row, or mma = wgmma"),
            ));
        }
    }
}

fn check_method(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    if spec.transpose.is_on() {
        errors.push(PlanError::new(
            "transpose",
            format!("blocks of {} x {} are not read transposed with mma = scalar", spec.bm, spec.bk),
            "neighbouring threads read a row of a block; transposed, small blocks alone are read, of up to 8 x 8 and bn = 16",
            "transpose = off, or mma = wgmma",
        ));
    }
    if spec.epilogue.is_some() {
        let key = spec.epilogue_key();
        errors.push(PlanError::new(
            key,
            format!("blocks of {} x {} have no `{key}` with mma = scalar", spec.bm, spec.bk),
            "on CUDA cores small blocks alone have it, of up to 8 x 8 and bn = 16",
            format!("drop `{key}`, or mma = wgmma"),
        ));
    }
    let whole = LOAD_BYTES / spec.a.bytes();
    let vector = spec.vector.unwrap_or(1);
    if vector != 1 && vector != whole && is_float(spec.a) {
        errors.push(PlanError::new(
            "vector",
            format!("loads of {vector} elements of {} are not supported", spec.a),
            format!("a load is one element, or 16 bytes = {whole} x {} B", spec.a.bytes()),
            format!("vector = {whole}"),
        ));
    }
    if vector == whole && spec.a == Dtype::BF16 && arch.compute_capability < (8, 0) {
        errors.push(PlanError::new(
            "vector",
            format!("{} has no instruction for two bf16 products", arch.target),
            format!("fma.rn.bf16x2 needs {} or newer", Target::Sm80),
            format!("arch = {}, or vector = 1", Target::Sm80),
        ));
    }
    match spec.accumulate {
        Some(Accumulate::Fast | Accumulate::Promoted) => errors.push(PlanError::new(
            "accumulate",
            "accumulate = fast and promoted need tensor cores",
            "scalar kernels accumulate in global memory (atomic) or in registers (register)",
            "accumulate = register",
        )),
        Some(Accumulate::Atomic) => check_atomic(spec, errors),
        Some(Accumulate::Register) | None => {}
    }
}

fn check_atomic(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.out != Dtype::F32 {
        errors.push(PlanError::new(
            "accumulate",
            format!("C is {}, and blocks are added to it in global memory", spec.out),
            format!(
                "each block of a row would round the sum to {} again, with an error of 2^-11 or more instead of 2^-24",
                spec.out
            ),
            "out = f32, or accumulate = register",
        ));
    }
    if is_vector(spec) {
        errors.push(PlanError::new(
            "vector",
            "the kernel that adds in global memory loads one element at a time",
            "its time is spent on the additions, not on the loads",
            "vector = 1",
        ));
    }
    if let Some(schedule) = spec.schedule {
        errors.push(PlanError::new(
            "schedule",
            format!("there are no tiles to assign with schedule = {schedule}"),
            "accumulate = atomic has one CTA for every stored block",
            "drop `schedule`, or accumulate = register",
        ));
    }
}

fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32)
}
