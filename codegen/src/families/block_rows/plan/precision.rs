//! Step 1b: in which registers products are summed, and what they are multiplied by afterwards.

use crate::plan::{PlanError, PlanErrors};
use crate::{Accumulate, Dtype, KernelSpec, Scale};

/// Columns of B that share one scale under `scale = block`.
pub(crate) const SCALE_COLUMNS: u32 = 128;

/// How sums are kept and scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Precision {
    /// Type of the tensor core's accumulators.
    pub(crate) accumulator: Dtype,
    /// The tensor core sums one stage at a time; f32 registers of our own sum the stages.
    pub(crate) promoted: bool,
    pub(crate) scale: Scale,
}

impl Precision {
    pub(crate) fn new(spec: &KernelSpec, errors: &mut PlanErrors) -> Self {
        let promoted = match spec.accumulate {
            Some(accumulate) => accumulate == Accumulate::Promoted,
            None => spec.scale == Scale::Block,
        };
        check_accumulate(spec, errors);
        check_scale(spec, errors);
        Self { accumulator: spec.acc, promoted, scale: spec.scale }
    }

    /// Does every stored block have factors of its own?
    pub(crate) fn scales_blocks(&self) -> bool {
        self.scale == Scale::Block
    }
}

fn check_accumulate(spec: &KernelSpec, errors: &mut PlanErrors) {
    let Some(accumulate) = spec.accumulate else { return };
    if matches!(accumulate, Accumulate::Atomic | Accumulate::Register) {
        errors.push(PlanError::new(
            "accumulate",
            format!("accumulate = {accumulate} needs mma = scalar"),
            "wgmma accumulates in registers; accumulate = fast or promoted selects the precision of FP8 sums",
            "drop `accumulate`, or mma = scalar",
        ));
    } else if !spec.a.is_fp8() {
        errors.push(PlanError::new(
            "accumulate",
            format!("accumulate = {accumulate} needs FP8 operands, and A is {}", spec.a),
            format!("products of {} are accumulated in full {}", spec.a, spec.acc),
            "drop `accumulate`, or dtype = e4m3",
        ));
    } else if accumulate == Accumulate::Fast && spec.scale == Scale::Block {
        errors.push(PlanError::new(
            "accumulate",
            "blocks with their own scales cannot be accumulated in the tensor core",
            "scale = block multiplies the sum of each block by its factors before adding it to the sum of the tile",
            "accumulate = promoted, or scale = row_col",
        ));
    }
}

fn check_scale(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.scale == Scale::Unscaled {
        return;
    }
    if spec.a.bytes() != 1 {
        errors.push(PlanError::new(
            "scale",
            format!("{} operands have no scales", spec.a),
            "scales extend the range of 8-bit operands; 16-bit formats do not need them",
            "drop `scale`, or dtype = e4m3",
        ));
    } else if spec.scale == Scale::Block && spec.a.is_integer() {
        errors.push(PlanError::new(
            "scale",
            "i8 operands with a scale for every block are not supported",
            "sums of i8 products are integers and are scaled once per tile: per tensor, or per row and column",
            "scale = row_col, or dtype = e4m3",
        ));
    } else if spec.scale == Scale::Block && !fits_groups(spec.bn) {
        errors.push(PlanError::new(
            "bn",
            format!("tiles of {} columns do not align with groups of {SCALE_COLUMNS} columns", spec.bn),
            format!(
                "{SCALE_COLUMNS} columns of B share a scale: {} / {SCALE_COLUMNS} = {:.2}",
                spec.bn,
                f64::from(spec.bn) / f64::from(SCALE_COLUMNS)
            ),
            "bn = 32, 64, 128 or 256",
        ));
    } else if spec.out == Dtype::I32 {
        errors.push(PlanError::new(
            "out",
            "a scaled result cannot be an integer",
            format!("scale = {} multiplies the integer sums by f32 factors", spec.scale),
            "out = f32, f16 or bf16, or scale = none",
        ));
    }
}

fn fits_groups(bn: u32) -> bool {
    bn.is_multiple_of(SCALE_COLUMNS) || SCALE_COLUMNS.is_multiple_of(bn)
}
