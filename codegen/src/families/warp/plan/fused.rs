//! The epilogue that a spec asks for: what is refused, and what a launch passes.
//!
//! Sums are staged in f32. A lane then reads 16 bytes' worth of C of one line, computes the results, and stores them.

use super::{doubles, seen};
use crate::epilogue::{Input, InputKind, Program};
use crate::plan::{Argument, Operand, Parameter, PlanError, PlanErrors, Problem};
use crate::{Arch, Dtype, KernelSpec, Op, Scale};

/// The first architecture with `max.NaN`.
const BOUNDS: (u32, u32) = (8, 0);
/// The first architecture that rounds an f32 to bf16 within an expression.
const ROUNDS: (u32, u32) = (9, 0);

/// Are results computed of sums before they are stored?
pub(crate) fn is_on(spec: &KernelSpec) -> bool {
    spec.epilogue.is_some() || spec.scale != Scale::Unscaled
}

/// The epilogue, said of lines of C in memory and what is along them: a row-major C has rows for lines.
pub(crate) fn program(spec: &KernelSpec) -> Option<&'static Program> {
    let epilogue = spec.epilogue?;
    Some(if seen::stores_rows(spec) { epilogue.program() } else { epilogue.transposed() })
}

pub(super) fn check(spec: &KernelSpec, arch: &Arch, errors: &mut PlanErrors) {
    check_scale(spec, errors);
    let Some(program) = program(spec) else { return };
    let key = spec.epilogue_key();
    let mut refuse = |key: &'static str, fact: String, why: String, help: String| {
        errors.push(PlanError::new(key, fact, why, help));
    };
    if spec.acc == Dtype::F16 || doubles::takes(spec) {
        let more = if spec.acc == Dtype::F16 { "acc = f32".to_owned() } else { format!("drop `{key}`") };
        refuse(
            key,
            format!("sums of {} have no `{key}`", spec.acc),
            "an epilogue computes in f32, of sums in f32".to_owned(),
            more,
        );
    }
    if spec.out.is_integer() {
        refuse(
            "out",
            "the result of an epilogue cannot be an integer".to_owned(),
            format!("an epilogue computes in f32, and C is {}", spec.out),
            "out = f32, f16 or bf16".to_owned(),
        );
    }
    if spec.batch.is_on() {
        refuse(
            key,
            "a kernel for a list of problems has no `epilogue`".to_owned(),
            "vectors, full operands and scalars belong to one problem, and a list has several".to_owned(),
            "batch = off".to_owned(),
        );
    }
    if program.reduction().is_some() {
        refuse(
            key,
            format!("mma = {} has no second result", spec.mma),
            "what a row collects would have to be added up over the tiles of other CTAs".to_owned(),
            "one result, or mma = wgmma".to_owned(),
        );
    }
    if arch.compute_capability < BOUNDS && program.bounds() {
        refuse(
            "arch",
            format!("{} has no max, min or relu that keeps a NaN", arch.target),
            "max.NaN.f32 came with sm_80 (PTX ISA)".to_owned(),
            "arch = sm_80, or `if acc > 0.0 { acc } else { 0.0 }`".to_owned(),
        );
    }
    if arch.compute_capability < ROUNDS && program.rounds_to(Dtype::BF16) {
        refuse(
            "arch",
            format!("{} has no `as bf16`", arch.target),
            "it is widened again by cvt.f32.bf16 of sm_90 (PTX ISA)".to_owned(),
            "arch = sm_90a, or no rounding in between".to_owned(),
        );
    }
    let is_full = |input: &&Input| matches!(input.kind, InputKind::Dense(_) | InputKind::Blocks(_));
    if let [first, second, ..] = program.inputs().iter().filter(is_full).collect::<Vec<_>>()[..] {
        refuse(
            key,
            "an epilogue with two full operands is not supported".to_owned(),
            match first.kind {
                InputKind::Blocks(_) => {
                    format!("beside a sum one element is read, of `{}` or of `{}`", first.name, second.name)
                }
                _ => format!("`{}` and `{}` would have one leading dimension", first.name, second.name),
            },
            "combine them into one matrix first, or fuse only one of them".to_owned(),
        );
    }
}

/// Factors of 8-bit operands, which a sum is multiplied by once.
fn check_scale(spec: &KernelSpec, errors: &mut PlanErrors) {
    let mut refuse = |fact: String, why: &str, help: &str| errors.push(PlanError::new("scale", fact, why, help));
    match spec.scale {
        Scale::Unscaled => {}
        _ if spec.a.bytes() > 1 => refuse(
            format!("operands of {} have no scale factors", spec.a),
            "factors undo the quantisation of 8-bit operands",
            "dtype = e4m3, or drop `scale`",
        ),
        _ if spec.out.is_integer() => refuse(
            format!("a result of {} is not scaled", spec.out),
            "factors are f32, and so is what they are multiplied with",
            "out = f32, or drop `scale`",
        ),
        Scale::RowCol if spec.op != Op::Dsd => refuse(
            format!("scale = {} is not supported for {}", spec.scale, spec.op),
            "factors per row are those of a sparse A; one factor per matrix works with any product",
            "scale = tensor, or op = dsd",
        ),
        _ if spec.batch.is_on() => refuse(
            format!("scale = {} is not supported for a batch", spec.scale),
            "each problem would have its own factors",
            "scale = none with the factors multiplied into the operands, or batch = off",
        ),
        Scale::Block => refuse(
            format!("mma = {} has no factors of blocks", spec.mma),
            "a sum of all of K is multiplied once, and the factors of blocks differ along K",
            "scale = row_col, or mma = wgmma",
        ),
        Scale::Tensor | Scale::RowCol => {}
    }
}

/// What a launch passes for it.
pub(in super::super) fn parameters(spec: &KernelSpec, problem: &Problem) -> Vec<Parameter> {
    let factor = |name, operand| Parameter { name, argument: Argument::Pointer(operand) };
    let mut all = match spec.scale {
        Scale::Unscaled => vec![],
        _ => vec![factor("scale_a", Operand::ScaleA), factor("scale_b", Operand::ScaleB)],
    };
    let Some(epilogue) = spec.epilogue else { return all };
    let inputs = epilogue.program().inputs();
    let of_input = |(at, input): (usize, &'static Input)| Parameter {
        name: &input.symbol,
        argument: match input.kind {
            InputKind::Scalar => Argument::Scalar(at),
            _ => Argument::Pointer(Operand::Epilogue(at)),
        },
    };
    all.extend(inputs.iter().enumerate().map(of_input));
    if inputs.iter().any(|input| matches!(input.kind, InputKind::Dense(_))) {
        all.push(Parameter { name: "ldt", argument: Argument::Number(problem.ldt as u32) });
    }
    all
}
