//! What epilogues ask of every family that has them: which can be planned, and the parameters of their operands.

use super::CONSUMER_OVERHEAD;
use crate::epilogue::{Input, InputKind, Lines, Program};
use crate::plan::{Argument, Operand, Parameter, Problem, TensorMap};
use crate::plan::{PlanError, PlanErrors};
use crate::{Dtype, KernelSpec};

/// The parameter with the address of the epilogue's second result.
pub(crate) const SECOND: &str = "epilogue_rows";

/// The parameters of an epilogue's operands, in order; `tile` is the map of a full operand, by the number of its parameter
/// and its type.
pub(crate) fn parameters(
    program: &'static Program,
    tile: impl Fn(usize, Dtype) -> TensorMap,
) -> impl Iterator<Item = Parameter> {
    let inputs = program.inputs().iter().enumerate().map(move |(at, input)| Parameter {
        name: &input.symbol,
        argument: match input.kind {
            InputKind::Scalar => Argument::Scalar(at),
            InputKind::Rows(_) | InputKind::Cols(_) | InputKind::Heads(_) => Argument::Pointer(Operand::Epilogue(at)),
            InputKind::Dense(dtype) | InputKind::Blocks(dtype) => Argument::Map(tile(at, dtype)),
        },
    });
    let second = Parameter { name: SECOND, argument: Argument::Pointer(Operand::Second) };
    inputs.chain(program.reduction().map(|_| second))
}

/// The map of a full operand that is a matrix: read as `out`, C's own, is written.
pub(crate) fn dense(out: &TensorMap, problem: &Problem) -> impl Fn(usize, Dtype) -> TensorMap {
    move |at, dtype| TensorMap {
        operand: Operand::Epilogue(at),
        dtype,
        strides_bytes: [problem.ldt * u64::from(dtype.bytes()), 0],
        ..*out
    }
}

/// Refuses what no family plans.
pub(crate) fn check(spec: &KernelSpec, program: &Program, errors: &mut PlanErrors) {
    if spec.out.is_integer() {
        errors.push(PlanError::new(
            "out",
            "the result of an epilogue cannot be an integer",
            format!("an epilogue computes in f32, and C is {}", spec.out),
            "out = f32, f16 or bf16",
        ));
    }
    if spec.batch.is_on() {
        errors.push(PlanError::new(
            spec.epilogue_key(),
            "a kernel for a list of problems has no `epilogue`",
            "vectors, full operands and scalars belong to one problem, and a list has several",
            "batch = off",
        ));
    }
    let is_full = |input: &&Input| matches!(input.kind, InputKind::Dense(_) | InputKind::Blocks(_));
    let tiles: Vec<_> = program.inputs().iter().filter(is_full).collect();
    if let [first, second, ..] = tiles[..] {
        errors.push(PlanError::new(
            spec.epilogue_key(),
            "an epilogue with two full operands is not supported",
            format!("`{}` and `{}` would both be read through the staging buffer of C", first.name, second.name),
            "combine them into one matrix first, or fuse only one of them",
        ));
    }
    if let [tile, ..] = tiles[..] {
        check_size(spec, tile, errors);
    }
}

/// Refuses an epilogue whose values of a thread's `rows` rows do not fit beside its accumulators; `narrowest` is the least `bn`.
pub(crate) fn check_registers(
    spec: &KernelSpec,
    program: &Program,
    rows: u32,
    (accumulators, registers): (u32, u32),
    narrowest: u32,
    errors: &mut PlanErrors,
) {
    let of_rows = Lines::row_registers(program, rows);
    let needed = accumulators + of_rows + CONSUMER_OVERHEAD;
    if needed > registers {
        errors.push(PlanError::new(
            "epilogue",
            "the values of the epilogue do not fit the register file",
            format!(
                "{accumulators} accumulators + {of_rows} values of {rows} rows + {CONSUMER_OVERHEAD} for addresses = \
                 {needed} registers per thread; a consumer has {registers}"
            ),
            format!("bn = {}, or fewer vectors", (spec.bn / 2).max(narrowest)),
        ));
    }
}

/// A full operand is read from where C is staged.
fn check_size(spec: &KernelSpec, tile: &Input, errors: &mut PlanErrors) {
    let (found, wanted) = (tile.kind.dtype(), spec.out);
    if wanted.bytes() == 1 {
        errors.push(PlanError::new(
            spec.epilogue_key(),
            format!("a full operand is not supported with a result of type {wanted}"),
            format!(
                "`{}` is read through the staging buffer of C, whose elements have {} B, and {found} has {} B",
                tile.name,
                wanted.bytes(),
                found.bytes()
            ),
            "out = bf16",
        ));
    } else if found.bytes() != wanted.bytes() && !wanted.is_integer() {
        let kind = match tile.kind {
            InputKind::Blocks(_) => InputKind::Blocks(wanted),
            _ => InputKind::Dense(wanted),
        };
        errors.push(PlanError::new(
            spec.epilogue_key(),
            format!("`{}` is {found} and C is {wanted}", tile.name),
            format!(
                "it is read through the staging buffer of C: its elements must have {} B as those of C, not {} B",
                wanted.bytes(),
                found.bytes()
            ),
            format!("{}: {}, or out = {found}", tile.name, kind.words()),
        ));
    }
}
