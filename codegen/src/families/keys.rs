//! Refuses keys that the table gives to other families, and architectures that a family is not made for.

use crate::epilogue::InputKind;
use crate::hopper::permute;
use crate::plan::{PlanError, PlanErrors};
use crate::spec::{Key, Target};
use crate::{KernelSpec, Mma, Op, Schedule, SplitK};

/// The architectures that a family's kernels can be written for.
fn targets(mma: Mma) -> &'static [Target] {
    match mma {
        Mma::Wgmma => &[Target::Sm90a],
        Mma::MmaSync => &[Target::Sm80, Target::Sm89, Target::Sm90a],
        Mma::Wmma | Mma::Scalar => &Target::ALL,
    }
}

/// Refuses keys of other families and architectures without the instruction.
pub(super) fn check(spec: &KernelSpec, target: Target, errors: &mut PlanErrors) {
    for key in Key::ALL {
        let families = key.instructions();
        if !families.contains(&spec.mma) && spec.says(key) {
            errors.push(PlanError::new(
                key.as_str(),
                format!("kernels with mma = {} have no `{key}`", spec.mma),
                format!("`{key}`, {}, is a choice of mma = {}", key.meaning(), words(families)),
                format!("drop `{key}`, or mma = {}", families[0]),
            ));
        }
    }
    if spec.op != Op::Dsd && spec.mma != Mma::Wgmma {
        errors.push(PlanError::new(
            "op",
            format!("mma = {} has no kernels of op = {}", spec.mma, spec.op),
            match spec.op {
                Op::Attention => "attention is a choice of mma = wgmma",
                Op::Sdd => "SDDMM is a choice of mma = wgmma",
                _ => "a sparse right factor is a choice of mma = wgmma",
            },
            "op = dsd, or mma = wgmma",
        ));
    }
    if spec.score.is_some() && spec.op != Op::Attention {
        errors.push(PlanError::new(
            Key::Score.as_str(),
            format!("op = {} has no scores", spec.op),
            "a score is what attention takes the exponential of, before a row is summed",
            "op = attention, or an `epilogue`",
        ));
    }
    if let Some(depth) = spec.d.filter(|_| spec.op != Op::Attention) {
        errors.push(PlanError::new(
            Key::D.as_str(),
            format!("op = {} has no heads of {depth} columns", spec.op),
            "`d` says how many columns Q and K of an attention have",
            "op = attention, or drop `d`",
        ));
    }
    if spec.pack_heads.is_some() && spec.op != Op::Attention {
        errors.push(PlanError::new(
            Key::PackHeads.as_str(),
            format!("op = {} has no heads", spec.op),
            "`pack_heads` is the number of heads of Q that share a tile; for block rows it is `pack`",
            "op = attention, or drop `pack_heads`",
        ));
    }
    if spec.split == SplitK::Long
        && (spec.batch.is_on() || spec.op == Op::Attention || spec.schedule == Some(Schedule::Strided))
    {
        errors.push(PlanError::new(
            Key::Split.as_str(),
            "split = long is not planned for a batch, an attention, or tiles in turn",
            "it divides the long tiles of one product, where tiles are balanced; here it would be split = auto",
            "split = auto",
        ));
    }
    permute::check(spec, errors);
    check_full_operands(spec, errors);
    let targets = targets(spec.mma);
    if !targets.contains(&target) {
        errors.push(PlanError::new(
            "arch",
            format!("mma = {} does not exist on {target}", spec.mma),
            match spec.mma {
                Mma::Wgmma => "wgmma is Hopper's alone: sm_90a".to_owned(),
                _ => format!("ldmatrix and mma.sync.m16n8k16 are of {} and newer", targets[0]),
            },
            match spec.mma {
                Mma::Wgmma => format!("arch = {}, or mma = {}", targets[0], fallback(target)),
                _ => format!("arch = {}, or mma = wmma", targets[0]),
            },
        ));
    }
}

/// A full operand of an epilogue lies as C does: in a matrix, or in blocks.
fn check_full_operands(spec: &KernelSpec, errors: &mut PlanErrors) {
    let inputs = spec.epilogue.map_or(&[][..], |epilogue| epilogue.program().inputs());
    for input in inputs {
        let (name, found) = (&input.name, input.kind.words());
        let (fact, wanted) = match (input.kind, spec.op) {
            (InputKind::Dense(dtype), Op::Sdd) => ("C is stored in blocks", InputKind::Blocks(dtype)),
            (InputKind::Blocks(_), Op::Sdd) => continue,
            (InputKind::Blocks(dtype), _) => ("C is a dense matrix", InputKind::Dense(dtype)),
            _ => continue,
        };
        errors.push(PlanError::new(
            spec.epilogue_key(),
            format!("`{name}` is {found}, and {fact}"),
            format!("op = {}: a full operand has an element for every one of C's, and lies as they do", spec.op),
            format!("{name}: {}", wanted.words()),
        ));
    }
}

/// The fastest instruction that an architecture has.
fn fallback(target: Target) -> Mma {
    let has = |mma: &Mma| targets(*mma).contains(&target);
    Mma::ALL.into_iter().find(has).unwrap_or(Mma::Scalar)
}

fn words(families: &[Mma]) -> String {
    let names: Vec<&str> = families.iter().map(|mma| mma.as_str()).collect();
    names.join(" and ")
}
