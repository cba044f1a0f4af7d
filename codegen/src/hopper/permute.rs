//! Rows of C in an order of the launch: which kernels can write them so, and the parameters that it takes.

use crate::epilogue::{InputKind, Program};
use crate::plan::{Argument, Operand, Parameter, Problem};
use crate::plan::{PlanError, PlanErrors};
use crate::{KernelSpec, Layout, Op};

/// Bytes that a thread moves at a time.
const VECTOR_BYTES: u64 = 16;

/// Refuses what cannot be planned.
pub(crate) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    if !spec.permute.is_on() {
        return;
    }
    let mut refuse = |fact: &str, why: &str, help: &str| errors.push(PlanError::new("permute", fact, why, help));
    if spec.op != Op::Dsd || spec.transpose.is_on() {
        refuse(
            "`permute` needs a sparse A that is not transposed",
            "the order belongs to the stored rows of the sparse matrix, which here are not the rows of C",
            "permute = off, or op = dsd and transpose = off",
        );
    }
    if spec.c_layout == Layout::ColMajor {
        refuse(
            "the rows of a column-major C cannot be permuted",
            "each element of a row would be written to its own cache line",
            "c_layout = row",
        );
    }
    if spec.batch.is_on() {
        refuse(
            "a kernel for a list of problems cannot permute rows",
            "each problem would have its own order",
            "batch = off",
        );
    }
    if let Some(name) = spec.epilogue.and_then(|epilogue| by_rows(epilogue.program())) {
        refuse(
            &format!("an epilogue with {name} is not supported together with `permute`"),
            "the order of the rows that it reads or reduces would be ambiguous",
            "permute = off, or an epilogue of scalars and vectors by columns",
        );
    }
}

/// What of an epilogue depends on the row.
fn by_rows(program: &Program) -> Option<String> {
    let of_rows = |kind| matches!(kind, InputKind::Rows(_) | InputKind::Dense(_));
    let input = program.inputs().iter().find(|input| of_rows(input.kind));
    let second = || program.reduction().map(|reduction| format!("a `{}`", reduction.as_str()));
    input.map(|input| format!("`{}: {}`", input.name, input.kind.words())).or_else(second)
}

/// The parameters beside `m` and `n`: C, vectors of 16 bytes from one row of it to the next, the order.
pub(crate) fn parameters(spec: &KernelSpec, problem: &Problem) -> [Parameter; 3] {
    let vectors = problem.ldc * u64::from(spec.out.bytes()) / VECTOR_BYTES;
    [
        Parameter { name: "c", argument: Argument::Pointer(Operand::C) },
        Parameter { name: "c_line", argument: Argument::Number(vectors as u32) },
        Parameter { name: "order", argument: Argument::Pointer(Operand::Order) },
    ]
}
