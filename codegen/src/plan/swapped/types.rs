//! Step 1: operand types and layouts that WGMMA multiplies this way round.

use crate::plan::error::{PlanError, PlanErrors};
use crate::plan::keys::{epilogue_key, type_key};
use crate::plan::view::{Major, View};
use crate::{Accumulate, Dtype, KernelSpec, Layout, Op, Scale};

pub(super) fn check(spec: &KernelSpec, view: &View, errors: &mut PlanErrors) {
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
    check_layouts(spec, view, errors);
    check_results(spec, errors);
    check_choices(spec, errors);
}

fn check_layouts(spec: &KernelSpec, view: &View, errors: &mut PlanErrors) {
    if view.dense_type.bytes() == 1 && view.dense == Layout::RowMajor {
        let (key, word, matrix) = match spec.op {
            Op::Dds => ("a_layout", "row", "A"),
            Op::Dsd | Op::Sdd => ("b_layout", "col", "B"),
        };
        errors.push(PlanError::new(
            key,
            format!("{matrix} is {} and K is not contiguous in it", view.dense_type),
            "WGMMA reads 8-bit operands along K only",
            format!("{key} = {word}, and transpose {matrix} once: `Dense::to_layout`"),
        ));
    }
    if view.sparse_type.bytes() == 1 && view.sparse == Major::Mn {
        errors.push(PlanError::new(
            "transpose",
            format!("blocks of {} are read across their rows", view.sparse_type),
            "WGMMA reads 8-bit operands along K only, and K runs down the columns of the stored blocks",
            "transpose the matrix once (`Bsr::transpose`), or dtype = f16",
        ));
    }
}

fn check_results(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.out == Dtype::I32 && !spec.a.is_integer() {
        errors.push(PlanError::new(
            "out",
            format!("a product of {} matrices is no integer", spec.a),
            "out = i32 is what i8 x i8 sums to",
            format!("out = {}", spec.a.default_out()),
        ));
    } else if spec.a.is_integer() && spec.out != Dtype::I32 {
        errors.push(PlanError::new(
            "out",
            format!("sums of i8 products are not written as {} with operands swapped", spec.out),
            "i32 sums are stored as they are",
            "out = i32",
        ));
    } else if spec.out.bytes() == 1 {
        errors.push(PlanError::new(
            "out",
            format!("results in {} are not planned with operands swapped", spec.out),
            "a thread has two neighbours of 64 dense columns by 8, too few for a 16-byte piece of 8-bit values",
            "out = bf16, or blocks of 64 rows",
        ));
    }
}

fn check_choices(spec: &KernelSpec, errors: &mut PlanErrors) {
    if matches!(spec.accumulate, Some(accumulate) if accumulate != Accumulate::Fast || !spec.a.is_fp8()) {
        errors.push(PlanError::new(
            "accumulate",
            "sums are kept in the tensor core's own accumulators when operands are swapped",
            "promoted sums take as many registers again",
            "drop `accumulate`, or blocks of 64 rows",
        ));
    }
    if spec.batch.is_on() {
        errors.push(PlanError::new(
            "batch",
            "batches are not planned with operands swapped",
            "records of a packed pattern name the blocks of one matrix",
            "batch = off and a launch a product, or blocks of 64 rows",
        ));
    }
    if spec.epilogue.is_some() {
        errors.push(PlanError::new(
            epilogue_key(spec),
            "epilogues are not planned with operands swapped",
            "they are applied by kernels whose rows are WGMMA's rows",
            format!("drop `{}`, or blocks of 64 rows", epilogue_key(spec)),
        ));
    }
    if spec.scale != Scale::Unscaled {
        errors.push(PlanError::new(
            "scale",
            "scales are not planned with operands swapped",
            "factors are applied by kernels whose rows are WGMMA's rows",
            "scale = none, or blocks of 64 rows",
        ));
    }
    if spec.cluster.is_some_and(|cluster| cluster != 1) {
        errors.push(PlanError::new(
            "cluster",
            "clusters are not planned with operands swapped",
            "block rows of a CTA tile share the dense operand already",
            "cluster = 1",
        ));
    }
    if let Some(swizzle @ ..=127 | swizzle @ 129..) = spec.swizzle {
        errors.push(PlanError::new(
            "swizzle",
            format!("a swizzle of {swizzle} bytes is not a choice with operands swapped"),
            "tiles take the widest span that they fill",
            "drop `swizzle`",
        ));
    }
}
