//! Step 1: are the sparsity block and the dense tile sizes that this compiler can plan?

use crate::hopper::{WGMMA_M, factors, whole_boxes};
use crate::plan::SparseTimesDense;
use crate::plan::{PlanError, PlanErrors};
use crate::{Dtype, KernelSpec, Op, Pdl, Scale, Switch};

/// K of a block is a multiple of so many elements: its lines start on the 16 bytes that TMA requires, and the rest of a
/// WGMMA is padded with zeros.
const fn depth_unit(dtype: Dtype) -> u32 {
    16 / dtype.bytes()
}

/// Widest dense tile.
const LARGEST: u32 = 512;
/// Largest sparsity block along each dimension: its rows are divided into slices, and its columns into stages.
const LARGEST_BLOCK: u32 = 2048;

pub(crate) fn check(spec: &KernelSpec, view: &SparseTimesDense, errors: &mut PlanErrors) {
    let (rows, depth) = view.keys;
    if !legal(view.rows, WGMMA_M) {
        let why = "WGMMA computes 64 rows at a time";
        errors.push(match spec.swap {
            Some(Switch::Off) => size(rows, view.rows, WGMMA_M, &format!("{why} with swap = off")).or("drop `swap`"),
            _ => size(rows, view.rows, WGMMA_M, why),
        });
    }
    let unit = depth_unit(view.sparse_type);
    if !legal(view.depth, unit) {
        let why = "TMA requires the rows of a block to be multiples of 16 bytes";
        errors.push(size(depth, view.depth, unit, why));
    }
    if !legal_bn(spec.bn) {
        let nearest = nearest(spec.bn, (1..=LARGEST / 16).map(|i| i * 16).filter(|n| legal_bn(*n)));
        errors.push(match spec.bn > LARGEST {
            true => PlanError::new(
                "bn",
                format!("a dense tile of {} columns is not supported", spec.bn),
                format!("{} > {LARGEST}, the widest planned: two consumers of 256 columns, WGMMA's largest N", spec.bn),
                format!("bn = {LARGEST}"),
            ),
            false => PlanError::new(
                "bn",
                format!("a dense tile of {} columns cannot be swizzled", spec.bn),
                match whole_boxes(spec.bn) {
                    true => format!(
                        "beyond 256 columns two or three consumers divide a tile into whole boxes of 32 columns; neither {} / 2 = {} nor {} / 3 = {:.1} is such a number",
                        spec.bn,
                        spec.bn / 2,
                        spec.bn,
                        f64::from(spec.bn) / 3.0
                    ),
                    false => "a tile is 16 columns or whole boxes of 32".to_owned(),
                },
                format!("bn = {nearest}"),
            ),
        });
    }
    factors::check_types(spec, errors);
    check_result(spec, errors);
    factors::check_layouts(spec, view, errors);
    check_scale(spec, errors);
    check_batch(spec, errors);
    check_early(spec, errors);
}

fn size(key: &'static str, value: u32, unit: u32, why: &str) -> PlanError {
    let what = if key == "bm" { "block rows" } else { "block columns" };
    PlanError::size(key, what, value, (unit, LARGEST_BLOCK), why)
}

fn legal(value: u32, unit: u32) -> bool {
    value > 0 && value.is_multiple_of(unit) && value <= LARGEST_BLOCK
}

fn legal_bn(bn: u32) -> bool {
    let divides = |n: u32| bn.is_multiple_of(n) && whole_boxes(bn / n);
    bn <= LARGEST && whole_boxes(bn) && (bn <= 256 || divides(2) || divides(3))
}

fn check_result(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.out == Dtype::I32 && !spec.a.is_integer() {
        errors.push(PlanError::no_integer(spec));
    }
}

/// Factors of blocks are those of a sparse A and a dense B, and those of rows and columns need a tile's place in C.
fn check_scale(spec: &KernelSpec, errors: &mut PlanErrors) {
    let why = match (spec.op, spec.scale) {
        (_, Scale::Unscaled | Scale::Tensor) | (Op::Dsd, _) | (Op::Dss, Scale::RowCol) => return,
        (Op::Dss, _) => "factors of blocks are listed with the blocks of a row of A, and pairs have their own lists",
        (Op::Sss, _) => "a work tile has the place of a block among C's values, and not its row and column",
        _ => "factors per row and per block are supported for a sparse A; one factor per matrix works with any product",
    };
    let or_rows = if spec.op == Op::Dss { "scale = row_col" } else { "op = dsd" };
    errors.push(PlanError::new(
        "scale",
        format!("scale = {} is not supported for {}", spec.scale, spec.op),
        why,
        format!("scale = tensor, or {or_rows}"),
    ));
}

/// The arguments of a problem of a batch are in its tensor maps and its work tiles.
fn check_batch(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.batch.is_on() && spec.scale != Scale::Unscaled {
        errors.push(PlanError::new(
            "scale",
            format!("scale = {} is not supported for a batch", spec.scale),
            "each problem would have its own factors",
            "scale = none with the factors multiplied into the operands, or batch = off",
        ));
    }
}

/// Nothing that the loads of the sparse operand need may come from the kernels before this one.
fn check_early(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.pdl == Pdl::Early && spec.scale == Scale::Block {
        errors.push(PlanError::new(
            "pdl",
            "pdl = early is not supported with scale = block",
            "the warp that loads the blocks of A multiplies their factors with those of B, which earlier kernels may still be writing",
            "pdl = on",
        ));
    }
    if spec.pdl == Pdl::Early && spec.batch.is_on() {
        errors.push(PlanError::new(
            "pdl",
            "pdl = early is not supported for a batch",
            "the tensor maps of all problems are in global memory, which earlier kernels may still be writing",
            "pdl = on",
        ));
    }
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
