//! Refuses keys that the table gives to other families, and architectures that a family is not made for.

use crate::epilogue::InputKind;
use crate::hopper::permute;
use crate::plan::{PlanError, PlanErrors};
use crate::spec::{Key, Target};
use crate::{Dtype, KernelSpec, Mma, Op, Schedule, SplitK};

/// Why kernels of warps that multiply by themselves have no such key, where they could be expected to.
fn why_not(mma: Mma, key: Key) -> Option<&'static str> {
    if !matches!(mma, Mma::MmaSync | Mma::Wmma) {
        return None;
    }
    Some(match key {
        Key::Permute => "a warp stores lines that follow one another, and each row of an order is somewhere else",
        Key::Scale => "factors undo the quantisation of 8-bit operands, which wmma kernels do not multiply",
        Key::Tf32 => {
            "wmma multiplies TF32 in fragments of 8 elements of K, and its kernels are planned for those of 16"
        }
        Key::Score | Key::Sinks | Key::D => {
            "an attention rescales rows of its sums, and in which thread an element of a wmma fragment is, only the hardware knows"
        }
        Key::Accumulate => "sums stay in the accumulators of the tensor cores, which are added to for all of K",
        Key::Consumers => "a consumer is a warpgroup, which WGMMA needs; `warps` says how many warps multiply",
        Key::Cluster => "clusters came with Hopper, where WGMMA is faster",
        Key::Swizzle => {
            "rows in shared memory are swizzled as ldmatrix reads them, and padded for fragments of wmma, which have one stride"
        }
        Key::Swap => "an instruction has 16 rows or fewer, so that small blocks are its rows as they are",
        Key::Pack => "a tile is of one block row, whose blocks its warps find in one list",
        Key::Pdl => "programmatic dependent launch came with Hopper, where WGMMA is faster",
        _ => return None,
    })
}

/// The architectures that a family's kernels can be written for.
fn targets(mma: Mma) -> &'static [Target] {
    match mma {
        Mma::Wgmma => &[Target::Sm90a],
        Mma::MmaSync => &[Target::Sm80, Target::Sm86, Target::Sm89, Target::Sm90a, Target::Sm120],
        Mma::Wmma | Mma::Scalar => &Target::ALL,
    }
}

/// Refuses keys of other families and architectures without the instruction.
pub(super) fn check(spec: &KernelSpec, target: Target, errors: &mut PlanErrors) {
    for key in Key::ALL {
        let families = key.instructions();
        if !families.contains(&spec.mma) && spec.says(key) {
            let choice = || format!("`{key}`, {}, is a choice of mma = {}", key.meaning(), words(families, "and"));
            errors.push(PlanError::new(
                key.as_str(),
                format!("kernels with mma = {} have no `{key}`", spec.mma),
                why_not(spec.mma, key).map_or_else(choice, str::to_owned),
                format!("drop `{key}`, or mma = {}", families[0]),
            ));
        }
    }
    if let Some((what, others)) =
        of_few(spec.op).filter(|(_, others)| spec.mma != Mma::Wgmma && !others.contains(&spec.mma))
    {
        errors.push(PlanError::new(
            "op",
            format!("mma = {} has no kernels of op = {}", spec.mma, spec.op),
            why_no_op(spec).map_or_else(
                || format!("{what} needs mma = {}", words(&[&[Mma::Wgmma], others].concat(), "or")),
                |why| format!("{what} needs mma = wgmma: {why}"),
            ),
            "op = dsd, or mma = wgmma",
        ));
    }
    if spec.score.is_some() && !spec.op.is_of_heads() {
        errors.push(PlanError::new(
            Key::Score.as_str(),
            format!("op = {} has no scores", spec.op),
            "a score is the value whose exponential an attention takes",
            "op = attention, or an `epilogue`",
        ));
    }
    if spec.sinks.is_on() && !spec.op.is_of_heads() {
        errors.push(PlanError::new(
            Key::Sinks.as_str(),
            format!("op = {} has no sinks", spec.op),
            "a sink is a term of the sum of exponentials by which an attention divides",
            "op = attention, or sinks = off",
        ));
    }
    if spec.score_gradients.is_on() && !spec.op.is_gradient() {
        errors.push(PlanError::new(
            Key::ScoreGradients.as_str(),
            format!("op = {} computes no gradients", spec.op),
            "gradients of a score's parameters are sums over the pairs of an attention's gradient",
            "op = attention_dq, op = attention_dkv, or score_gradients = off",
        ));
    }
    if let Some(depth) = spec.d.filter(|_| !spec.op.is_of_heads()) {
        errors.push(PlanError::new(
            Key::D.as_str(),
            format!("op = {} has no heads of {depth} columns", spec.op),
            "`d` is the number of columns of Q and K in an attention",
            "op = attention, or drop `d`",
        ));
    }
    if let Some(page) = spec.page.filter(|_| !spec.op.is_of_heads()) {
        errors.push(PlanError::new(
            Key::Page.as_str(),
            format!("op = {} has no pages of {page} keys", spec.op),
            "`page` is the number of keys of a page of K and V in an attention",
            "op = attention, or drop `page`",
        ));
    }
    if spec.pack_heads.is_some() && !spec.op.is_of_heads() {
        errors.push(PlanError::new(
            Key::PackHeads.as_str(),
            format!("op = {} has no heads", spec.op),
            "`pack_heads` is the number of heads of Q that share a tile; for block rows it is `pack`",
            "op = attention, or drop `pack_heads`",
        ));
    }
    if spec.work_list.is_some() && !spec.op.is_of_heads() {
        errors.push(PlanError::new(
            Key::WorkList.as_str(),
            format!("op = {} has its work list in memory", spec.op),
            "`work_list` is for attentions of few tiles, whose list fits the parameters of a launch",
            "op = attention, or drop `work_list`",
        ));
    }
    if spec.split == SplitK::Long
        && (spec.batch.is_on() || spec.op.is_of_heads() || spec.schedule == Some(Schedule::Strided))
    {
        errors.push(PlanError::new(
            Key::Split.as_str(),
            "split = long is not supported for a batch, an attention, or schedule = strided",
            "it divides the longest tiles of one product whose schedule is balanced; here it would equal split = auto",
            "split = auto",
        ));
    }
    check_tf32(spec, errors);
    check_compiler(spec, errors);
    permute::check(spec, errors);
    check_full_operands(spec, errors);
    check_wide_operands(spec, errors);
    let targets = targets(spec.mma);
    if !targets.contains(&target) {
        errors.push(PlanError::new(
            "arch",
            format!("mma = {} does not exist on {target}", spec.mma),
            match spec.mma {
                Mma::Wgmma => "wgmma exists only on Hopper: sm_90a".to_owned(),
                _ => format!("ldmatrix and mma.sync.m16n8k16 need {} or newer", targets[0]),
            },
            match spec.mma {
                Mma::Wgmma => format!("arch = {}, or mma = {}", targets[0], fallback(target)),
                _ => format!("arch = {}, or mma = wmma", targets[0]),
            },
        ));
    }
}

/// TF32 is of f32 factors.
fn check_tf32(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.tf32.is_on() && (spec.a, spec.b) != (Dtype::F32, Dtype::F32) {
        errors.push(PlanError::new(
            Key::Tf32.as_str(),
            format!("A is {} and B is {}, which are not rounded to TF32", spec.a, spec.b),
            "TF32 is what tensor cores make of f32 factors",
            "dtype = f32, or tf32 = off",
        ));
    }
}

/// Registers that PTX may allow a thread.
const REGISTERS: std::ops::RangeInclusive<u32> = 32..=255;
/// Levels of optimization of the driver's compiler. It has 0, too, at which kernels spill.
const LEVELS: std::ops::RangeInclusive<u32> = 1..=4;

/// What is said to the compiler of PTX is within its ranges.
fn check_compiler(spec: &KernelSpec, errors: &mut PlanErrors) {
    if let Some(registers) = spec.maxnreg.filter(|registers| !REGISTERS.contains(registers)) {
        let (least, most) = (REGISTERS.start(), REGISTERS.end());
        errors.push(PlanError::new(
            Key::Maxnreg.as_str(),
            format!("a thread cannot have {registers} registers"),
            format!("maxnreg is {least} to {most}, the most that a thread can name"),
            format!("maxnreg = {}, or drop `maxnreg`", registers.clamp(*least, *most)),
        ));
    }
    if let Some(level) = spec.opt_level.filter(|level| !LEVELS.contains(level)) {
        let (least, most) = (LEVELS.start(), LEVELS.end());
        errors.push(PlanError::new(
            Key::OptLevel.as_str(),
            format!("{level} is no level of optimization"),
            format!("the compiler's levels are {least} to {most}; without the key it takes its highest"),
            format!("opt_level = {most}, or drop `opt_level`"),
        ));
    }
}

/// Why kernels of warps that multiply by themselves have no such operation.
fn why_no_op(spec: &KernelSpec) -> Option<&'static str> {
    let of_warps = matches!(spec.mma, Mma::MmaSync | Mma::Wmma);
    match spec.op {
        Op::Dss | Op::Sss if of_warps => {
            Some("the others have one list of blocks a tile, and pairs of blocks are in two")
        }
        _ => None,
    }
}

/// What an operation is called that kernels of few instructions have: of `wgmma`, and of these.
fn of_few(op: Op) -> Option<(&'static str, &'static [Mma])> {
    match op {
        Op::Dsd => None,
        Op::Dds => Some(("a sparse right factor", &[Mma::MmaSync, Mma::Wmma])),
        Op::Sdd => Some(("SDDMM", &[Mma::MmaSync, Mma::Wmma])),
        Op::Dss | Op::Sss => Some(("a product of two block-sparse matrices", &[])),
        Op::Attention => Some(("attention", &[Mma::MmaSync])),
        Op::AttentionDq | Op::AttentionDkv => Some(("the gradient of an attention", &[])),
    }
}

/// A full operand of an epilogue is stored like C: as a matrix, or in blocks.
fn check_full_operands(spec: &KernelSpec, errors: &mut PlanErrors) {
    let inputs = spec.epilogue.map_or(&[][..], |epilogue| epilogue.program().inputs());
    for input in inputs {
        let (name, found) = (&input.name, input.kind.words());
        let (fact, wanted) = match (input.kind, spec.op.stores_blocks()) {
            (InputKind::Dense(dtype), true) => ("C is stored in blocks", InputKind::Blocks(dtype)),
            (InputKind::Blocks(dtype), false) => ("C is a dense matrix", InputKind::Dense(dtype)),
            _ => continue,
        };
        errors.push(PlanError::new(
            spec.epilogue_key(),
            format!("`{name}` is {found}, and {fact}"),
            format!("op = {}: a full operand has the shape and the layout of C", spec.op),
            format!("{name}: {}", wanted.words()),
        ));
    }
}

/// Elements of f64 are those of an epilogue that computes in f64, and so of sums of f64.
fn check_wide_operands(spec: &KernelSpec, errors: &mut PlanErrors) {
    let inputs = spec.epilogue.map_or(&[][..], |epilogue| epilogue.program().inputs());
    for input in inputs {
        if input.kind.dtype() == Dtype::F64 && spec.acc != Dtype::F64 {
            let (name, found) = (&input.name, input.kind.words());
            errors.push(PlanError::new(
                spec.epilogue_key(),
                format!("`{name}` is {found}, and sums of {} become results in f32", spec.acc),
                "f64 has 53 bits, and f32 keeps 24 of them",
                format!("{name}: {}", found.replace("f64", "f32")),
            ));
        }
    }
}

/// The fastest instruction that an architecture has.
fn fallback(target: Target) -> Mma {
    let has = |mma: &Mma| targets(*mma).contains(&target);
    Mma::ALL.into_iter().find(has).unwrap_or(Mma::Scalar)
}

fn words(families: &[Mma], joint: &str) -> String {
    let names: Vec<&str> = families.iter().map(|mma| mma.as_str()).collect();
    names.join(&format!(" {joint} "))
}
