//! Are the block, the types and the keys those of a kernel that this family has?

use super::{MOST_COLUMNS, MOST_SIDE, together};
use crate::plan::{PlanError, PlanErrors};
use crate::spec::Key;
use crate::{Accumulate, Dtype, IndexWidth, KernelSpec};

/// Threads of a warp.
pub(super) const MOST_LANES: u32 = 32;
/// Groups of threads that divide a warp.
const LANES: [u32; 4] = [4, 8, 16, MOST_LANES];

pub(super) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    if !super::is_small(spec) {
        let said = super::OWN.into_iter().filter(|key| spec.says(*key));
        said.for_each(|key| errors.push(of_larger_blocks(spec, key)));
        return;
    }
    for (key, what, value, most, why) in [
        ("bm", "block rows", spec.bm, MOST_SIDE, "a thread has a row of a block"),
        ("bk", "block columns", spec.bk, MOST_SIDE, "a thread has a row of a block"),
        ("bn", "dense tile columns", spec.bn, MOST_COLUMNS, "a thread has a sum for each column"),
    ] {
        if value == 0 {
            errors.push(PlanError::size(key, what, value, (1, most), why));
        }
    }
    check_types(spec, errors);
    check_lanes(spec, errors);
    check_choices(spec, errors);
    check_rows(spec, errors);
    together::check(spec, errors);
}

fn of_larger_blocks(spec: &KernelSpec, key: Key) -> PlanError {
    PlanError::new(
        key.as_str(),
        format!("`{key}` is a choice of small blocks, and these are {} x {} with bn = {}", spec.bm, spec.bk, spec.bn),
        format!("small blocks have up to {MOST_SIDE} rows and columns, and tiles up to {MOST_COLUMNS} columns"),
        format!("drop `{key}`"),
    )
}

/// The pointers of block rows.
fn check_rows(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.row_ptr == IndexWidth::I64 && spec.transpose.is_on() {
        errors.push(PlanError::new(
            Key::RowPtr.as_str(),
            "row_ptr = i64 is not supported with transpose = on",
            "the blocks of a column are found by their numbers, which have 32 bits",
            "row_ptr = i32, or transpose = off",
        ));
    }
}

fn check_types(spec: &KernelSpec, errors: &mut PlanErrors) {
    let is_float = |dtype| matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16);
    if !is_float(spec.a) {
        errors.push(PlanError::new(
            "a",
            format!("values of {} are not supported in small blocks", spec.a),
            "they are f64, f32, f16 or bf16",
            format!("{} = f32", spec.type_key("a")),
        ));
        return;
    }
    if !matches!(spec.b, Dtype::F64 | Dtype::F32) {
        let dense = if spec.a == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        errors.push(PlanError::new(
            "b",
            format!("small blocks of {} are not multiplied with a B of {}", spec.a, spec.b),
            "B is f64 or f32",
            format!("a = {}, b = {dense}", spec.a),
        ));
        return;
    }
    let wanted = if spec.a == Dtype::F64 { spec.a } else { spec.b };
    if spec.acc != wanted {
        errors.push(PlanError::new(
            "acc",
            format!("sums cannot be accumulated in {}", spec.acc),
            format!("products of small blocks are summed in the wider type of A and B, {wanted}"),
            format!("acc = {wanted}"),
        ));
    }
    if spec.out != spec.b && spec.out != wanted {
        errors.push(PlanError::new(
            "out",
            format!("B is {}, and results cannot be written as {}", spec.b, spec.out),
            "C of small blocks has the type of B, or that of the sums",
            format!("out = {}", spec.b),
        ));
    }
}

fn check_lanes(spec: &KernelSpec, errors: &mut PlanErrors) {
    let Some(lanes) = spec.lanes else { return };
    let (rows, _) = super::sides(spec);
    if lanes == together::LANES || LANES.contains(&lanes) && lanes >= rows {
        return;
    }
    let fact = format!("{lanes} threads cannot serve a block row");
    let least = LANES.into_iter().find(|lanes| *lanes >= rows).unwrap_or(MOST_LANES);
    let why = match LANES.contains(&lanes) {
        true => format!("each row of a block has a thread, and a block has {rows} rows"),
        false => "a warp of 32 threads is divided into groups of 4, 8, 16 or 32; 1 reads the rows of a CTA together"
            .to_owned(),
    };
    errors.push(PlanError::new("lanes", fact, why, format!("lanes = {least}")));
}

fn check_choices(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.vector.is_some() {
        errors.push(PlanError::new(
            "vector",
            "small blocks have no `vector`",
            "a thread reads a row of a block by the widest loads that divide it",
            "drop `vector`",
        ));
    }
    if spec.cta_m.is_some() {
        errors.push(PlanError::new(
            "cta_m",
            "small blocks have no `cta_m`",
            "a CTA has the block rows that its threads serve, `lanes` of them each",
            "drop `cta_m`",
        ));
    }
    if let Some(accumulate) = spec.accumulate.filter(|accumulate| *accumulate != Accumulate::Register) {
        errors.push(PlanError::new(
            "accumulate",
            format!("small blocks have no accumulate = {accumulate}"),
            "the sums of a block row are in the registers of the threads that serve it",
            "accumulate = register",
        ));
    }
    if let Some(schedule) = spec.schedule {
        errors.push(PlanError::new(
            "schedule",
            format!("there are no tiles to assign with schedule = {schedule}"),
            "a group of threads serves the block row of its own number",
            "drop `schedule`",
        ));
    }
}
