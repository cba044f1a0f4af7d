//! What of an SDDMM these kernels do not compute.

use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, Dtype, KernelSpec, Layout, Mma, Scale, Schedule};

use super::super::block::{check_elements, size};
use super::super::groups::unit;
use super::super::units::fragment;
use super::seen;

pub(super) fn check(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    let (rows, columns) = (fragment(spec).0, unit(&seen(spec)));
    size("bm", spec.bm, rows, &format!("an instruction has {rows} rows"), errors);
    for key in ["bn", "bk"] {
        let value = if key == "bn" { spec.bn } else { spec.bk };
        size(key, value, columns, &format!("a fragment, or a pair of them, has {columns} columns"), errors);
    }
    let mut refuse = |key: &'static str, fact: String, why: &str, help: &str| {
        errors.push(PlanError::new(key, fact, why, help));
    };
    let op = spec.op;
    if !arch.cp_async {
        refuse(
            "arch",
            format!("{} has no kernels of op = {op}", arch.target),
            "both factors come by cp.async, which came with sm_80",
            "arch = sm_80",
        );
    }
    if spec.a == Dtype::F64 {
        refuse(
            "op",
            format!("mma = {} has no kernels of op = {op} on f64", spec.mma),
            "sums of f64 go from registers to rows of C, and a stored block is written from shared memory",
            "op = dsd, or dtype = f32, tf32 = on",
        );
    }
    if spec.scale != Scale::Unscaled {
        refuse(
            "scale",
            format!("op = {op} with scale = {} is not supported", spec.scale),
            "scale factors are applied to tiles of a dense result",
            "drop `scale`, and multiply A or B by the factors",
        );
    }
    if spec.split.is_on() {
        refuse(
            "split",
            format!("split = {} is not supported for op = {op}", spec.split),
            "with schedule = balanced an SDDMM divides the K of its last tiles by itself",
            "schedule = balanced, or drop `split`",
        );
    }
    if spec.batch.is_on() && spec.schedule == Some(Schedule::Balanced) {
        refuse(
            "schedule",
            "the K of tiles cannot be divided in a list of SDDMM problems".to_owned(),
            "a list has enough whole tiles for every CTA, and split-K partials would need a workspace per problem",
            "drop `schedule`",
        );
    }
    if spec.c_layout != Layout::RowMajor {
        refuse(
            "c_layout",
            "C of an SDDMM has no layout".to_owned(),
            "C is stored in blocks, row by row within a block; transpose = on stores the blocks of C^T",
            "drop `c_layout`",
        );
    }
    check_layouts(spec, errors);
    if spec.a != Dtype::F64 {
        check_elements(spec, arch, errors);
    }
}

/// `ldmatrix` transposes 16-bit elements alone, and a thread reads rows of f32 of a right factor itself.
fn check_layouts(spec: &KernelSpec, errors: &mut PlanErrors) {
    let transposes = |dtype: Dtype, is_right: bool| dtype.bytes() == 2 || (dtype == Dtype::F32 && is_right);
    let is_exchanged = spec.transpose.is_on();
    for (key, name, dtype, is_along_k, is_right) in [
        ("a_layout", "A", spec.a, spec.a_layout == Layout::RowMajor, is_exchanged),
        ("b_layout", "B", spec.b, spec.b_layout == Layout::ColMajor, !is_exchanged),
    ] {
        if is_along_k || spec.mma == Mma::Wmma || transposes(dtype, is_right) || dtype == Dtype::F64 {
            continue;
        }
        let (layout, wanted) = if key == "a_layout" { ("column", "row") } else { ("row", "col") };
        errors.push(PlanError::new(
            key,
            format!("{name} is {dtype} and {layout}-major"),
            "its elements are multiplied along K only: K must be contiguous; ldmatrix transposes only 16-bit elements",
            format!("{key} = {wanted}, and `Dense::to_layout` once"),
        ));
    }
}
