//! Step 4b: the spec's epilogue: what it needs beside the accumulators.

use super::tiling::Tiling;
use crate::epilogue::{InputKind, Lines, Program};
use crate::plan::error::{PlanError, PlanErrors};
use crate::plan::keys::epilogue_key;
use crate::plan::wgmma::CONSUMER_OVERHEAD;
use crate::{Dtype, KernelSpec};

/// Rows of which a thread has elements.
pub(crate) const ROWS: u32 = 2;

/// The epilogue of a kernel. Its rows and columns are those of the stored matrix: of C^T under `transpose = on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fused {
    pub(crate) program: &'static Program,
    /// The full operand, values of blocks: its number among the parameters, and its type. It is read piece by piece from
    /// where C is staged.
    pub(crate) tile: Option<(usize, Dtype)>,
}

impl Fused {
    pub(super) fn new(spec: &KernelSpec, tiling: &Tiling, errors: &mut PlanErrors) -> Option<Self> {
        let program = spec.epilogue?.program();
        check_types(spec, program, errors);
        let (accumulators, registers) = (tiling.accumulators(), tiling.roles.consumer_registers);
        let of_rows = Lines::row_registers(program, ROWS);
        let needed = accumulators + of_rows + CONSUMER_OVERHEAD;
        if needed > registers {
            errors.push(PlanError::new(
                "epilogue",
                "the values of the epilogue do not fit the register file",
                format!(
                    "{accumulators} accumulators + {of_rows} values of {ROWS} rows + {CONSUMER_OVERHEAD} for addresses = \
                     {needed} registers a thread; a consumer has {registers}"
                ),
                format!("bn = {}, or fewer vectors", (spec.bn / 2).max(8)),
            ));
        }
        Some(Self { program, tile: program.tile() })
    }
}

fn check_types(spec: &KernelSpec, program: &Program, errors: &mut PlanErrors) {
    if spec.out.is_integer() {
        errors.push(PlanError::new(
            "out",
            "the result of an epilogue is no integer",
            format!("an epilogue computes in f32, and C is {}", spec.out),
            "out = f32, f16 or bf16",
        ));
    }
    let tiles: Vec<_> = program.inputs().iter().filter(|input| matches!(input.kind, InputKind::Blocks(_))).collect();
    if let [first, second, ..] = tiles[..] {
        errors.push(PlanError::new(
            epilogue_key(spec),
            "an epilogue with two full operands is not planned",
            format!("`{}` and `{}` would be read through the one place where C is staged", first.name, second.name),
            "add them to one matrix before, or fuse one of them",
        ));
    }
    if let [tile, ..] = tiles[..] {
        let (found, wanted) = (tile.kind.dtype(), spec.out);
        if found.bytes() != wanted.bytes() && !wanted.is_integer() {
            errors.push(PlanError::new(
                epilogue_key(spec),
                format!("`{}` is {found} and C is {wanted}", tile.name),
                format!(
                    "it is read from where C is staged, so its elements have {} B as C's have, not {} B",
                    wanted.bytes(),
                    found.bytes()
                ),
                format!("{}: Bsr<{wanted}>, or out = {found}", tile.name),
            ));
        }
    }
}
