//! Step 1: are the sparsity block, the tile and the types such as the instruction multiplies?

use crate::plan::{PlanError, PlanErrors, SparseTimesDense, check_factors};
use crate::{Arch, Dtype, KernelSpec, Mma, Shape};

use super::units::fragment;
use super::{doubles, layouts, tf32};

/// Widest dense tile.
const LARGEST: u32 = 512;
/// Largest sparsity block along each dimension: its rows are divided into slices, and its columns into stages.
const LARGEST_BLOCK: u32 = 2048;
/// `bn` and `bk` are multiples of this: whole vectors of 16 bytes, and pairs of instructions along N.
pub(super) const UNIT: u32 = 16;

/// `seen` is the spec as [`super::seen`] has it.
pub(crate) fn check(spec: &KernelSpec, seen: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    let (m, n) = fragment(seen);
    let (rows, depth) = SparseTimesDense::new(spec).keys;
    size(rows, seen.bm, m, &format!("an instruction has {m} rows"), errors);
    let (columns, instruction) = match n {
        _ if tf32::reads_rows(seen) => (n, "a fragment of row-major B in f32"),
        UNIT.. if n > UNIT => (n, "an instruction"),
        _ => (UNIT, "a pair of instructions"),
    };
    size("bn", spec.bn, columns, &format!("{instruction} has {columns} columns"), errors);
    let (why, is_f64) = match doubles::takes(spec) && spec.mma == Mma::MmaSync {
        true => ("the threads of a fragment of f64 have 16 columns", true),
        false => ("K is loaded in whole 16-byte vectors", false),
    };
    size(depth, seen.bk, UNIT, why, errors);
    layouts::check(spec, seen, errors);
    if is_f64 {
        return doubles::check(spec, arch, errors);
    }
    check_elements(spec, arch, errors);
}

/// Types that are multiplied and written, and the shape of a fragment.
pub(super) fn check_elements(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    if spec.shape.is_some_and(|shape| shape.is_of_f64() || spec.mma == Mma::MmaSync) {
        errors.push(no_shape(spec));
    }
    check_types(spec, errors);
    check_out(spec, arch, errors);
    check_arch(spec, arch, errors);
}

pub(super) fn size(key: &'static str, value: u32, unit: u32, why: &str, errors: &mut PlanErrors) {
    let (what, largest) = match key {
        "bn" => ("dense tile columns", LARGEST),
        "bm" => ("block rows", LARGEST_BLOCK),
        _ => ("block columns", LARGEST_BLOCK),
    };
    if value == 0 || !value.is_multiple_of(unit) || value > largest {
        errors.push(PlanError::size(key, what, value, (unit, largest), why));
    }
}

/// Of `mma_sync` f64 alone has shapes, and `wmma` others.
fn no_shape(spec: &KernelSpec) -> PlanError {
    let shape = spec.shape.unwrap_or(Shape::M16N16K16);
    let (why, help) = match spec.mma {
        Mma::Wmma => (format!("{shape} is a shape of mma.sync on f64"), "shape = m16n16k16, or drop `shape`"),
        _ => ("mma.sync has a choice of shapes on f64 alone".to_owned(), "drop `shape`"),
    };
    PlanError::new("shape", format!("mma = {} on {} has no shape = {shape}", spec.mma, spec.a), why, help)
}

fn check_types(spec: &KernelSpec, errors: &mut PlanErrors) {
    let opaque = spec.mma == Mma::Wmma;
    for (key, dtype) in [("a", spec.a), ("b", spec.b)] {
        if dtype == Dtype::F32 && tf32::takes(spec) {
            continue;
        } else if dtype == Dtype::F32 && !opaque {
            errors.push(PlanError::new(
                key,
                format!("operand {key} is f32, which {} multiplies with 11 significant bits alone", spec.mma),
                "tensor cores round f32 factors to TF32; a spec says that this may be",
                "tf32 = on, or mma = scalar",
            ));
        } else if matches!(dtype, Dtype::F32 | Dtype::I32) {
            errors.push(PlanError::new(
                key,
                format!("operand {key} is {dtype}, which {} does not multiply", spec.mma),
                "the tensor cores take f16, bf16, i8 and FP8",
                format!("{} = f16, or mma = scalar", spec.type_key(key)),
            ));
        } else if opaque && dtype.bytes() == 1 {
            errors.push(PlanError::new(
                key,
                format!("operand {key} is {dtype}, which wmma kernels do not support"),
                "8-bit fragments are read along K from swizzled memory, which needs ldmatrix",
                "mma = mma_sync, or mma = wgmma",
            ));
        }
    }
    check_factors(spec, "instruction", errors);
}

fn check_out(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    if spec.out == Dtype::I32 && !spec.a.is_integer() {
        errors.push(PlanError::no_integer(spec));
    }
    let first = match spec.out {
        Dtype::E4M3 => (8, 9),
        Dtype::BF16 => (8, 0),
        _ => (0, 0),
    };
    // Where the operands themselves are of a newer architecture, that is what there is to say.
    if arch.compute_capability < first && spec.out != spec.a {
        errors.push(PlanError::new(
            "out",
            format!("{} has no conversion to {}", arch.target, spec.out),
            format!("cvt from f32 to {} needs sm_{}{} or newer", spec.out, first.0, first.1),
            format!("out = f16 or f32, or arch = sm_{}{}", first.0, first.1),
        ));
    }
}

fn check_arch(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    let first = match spec.a {
        Dtype::E4M3 | Dtype::E5M2 => (8, 9),
        Dtype::BF16 => (8, 0),
        _ => (0, 0),
    };
    let planned = spec.mma != Mma::Wmma || spec.a.bytes() > 1;
    if arch.compute_capability < first && planned {
        errors.push(PlanError::new(
            "arch",
            format!("{} does not multiply {}", arch.target, spec.a),
            format!("{} on {} needs sm_{}{} or newer", spec.mma, spec.a, first.0, first.1),
            format!("arch = sm_{}{}, or dtype = f16", first.0, first.1),
        ));
    }
}
