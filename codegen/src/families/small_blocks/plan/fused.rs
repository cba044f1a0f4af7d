//! The epilogue that a spec asks for: what is refused, and what a launch passes.

use crate::epilogue::{Input, InputKind, lacking};
use crate::plan::{Argument, Operand, Parameter, PlanError, PlanErrors, Problem};
use crate::{Arch, Dtype, KernelSpec};

/// Refuses epilogues that small blocks do not have.
pub(super) fn check(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    let Some(program) = spec.epilogue.map(|epilogue| epilogue.program()) else { return };
    let key = spec.epilogue_key();
    if spec.acc == Dtype::F64
        && let Some(function) = lacking(program).first()
    {
        errors.push(PlanError::new(
            key,
            format!("sums of f64 have no `{function}`"),
            "what an epilogue computes of them is f64, of which PTX has no exponentials, logarithms and sines: f32 approximates them to 22 of 53 bits",
            format!("drop `{key}`, and compute `{function}` of C after the product"),
        ));
    }
    if program.reduction().is_some() {
        errors.push(PlanError::new(
            key,
            "small blocks have no second result",
            "what a row collects is added up over tiles of columns, which CTAs of small blocks do not do",
            "one result",
        ));
    }
    if arch.compute_capability < (9, 0) {
        errors.push(PlanError::new(
            "arch",
            format!("small blocks have no `{key}` on {}", arch.target),
            "the instructions of an epilogue, such as cvt.f32.bf16, are those of sm_90 (PTX ISA)",
            format!("arch = sm_90a, or drop `{key}`"),
        ));
    }
    let is_full = |kind: InputKind| matches!(kind, InputKind::Dense(_));
    if let [first, second, ..] = program.inputs().iter().filter(|input| is_full(input.kind)).collect::<Vec<_>>()[..] {
        errors.push(PlanError::new(
            key,
            "an epilogue with two full operands is not supported",
            format!("`{}` and `{}` would have one leading dimension", first.name, second.name),
            "combine them into one matrix first, or fuse only one of them",
        ));
    }
}

/// What a launch passes for it.
pub(in super::super) fn parameters(spec: &KernelSpec, problem: &Problem) -> Vec<Parameter> {
    let Some(program) = spec.epilogue.map(|epilogue| epilogue.program()) else { return vec![] };
    let of_input = |(at, input): (usize, &'static Input)| Parameter {
        name: &input.symbol,
        argument: match input.kind {
            InputKind::Scalar => Argument::Scalar(at),
            _ => Argument::Pointer(Operand::Epilogue(at)),
        },
    };
    let mut all: Vec<Parameter> = program.inputs().iter().enumerate().map(of_input).collect();
    if program.inputs().iter().any(|input| matches!(input.kind, InputKind::Dense(_))) {
        all.push(Parameter { name: "ldt", argument: Argument::Number(problem.ldt as u32) });
    }
    all
}
