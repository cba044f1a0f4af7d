//! Step 1: can this family plan the block, the types and the score?

use super::tiling::WIDEST_ALONE;
use super::{fp8, list, slices};
use crate::epilogue::InputKind;
use crate::hopper::wgmma_k;
use crate::plan::{PlanError, PlanErrors};
use crate::scores::check::{self, FOREIGN};
use crate::spec::Key;
use crate::{KernelSpec, Op, Pdl};

/// Rows of a consumer warpgroup, of which the rows of a block are a multiple.
const ROWS: u32 = 64;
/// Largest block along each dimension.
const LARGEST: u32 = 512;
/// Keys of the smallest page and of the largest.
const PAGES: [u32; 2] = [16, 256];
/// Widest head: N of the widest WGMMA.
const WIDEST: u32 = 256;
/// The same where CTAs share the keys of a tile.
const WIDEST_SPLIT: u32 = 176;

pub(crate) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    // K of one WGMMA.
    let unit = wgmma_k(spec.a).max(16);
    let packed = spec.pack_heads.filter(|heads| heads.is_power_of_two() && *heads <= ROWS).unwrap_or(1);
    let sides = [
        (
            "bm",
            "blocks of",
            "queries",
            spec.bm,
            ROWS / packed,
            LARGEST,
            match packed {
                1 => "a consumer warpgroup has 64 queries",
                _ => "a consumer warpgroup has 64 rows, of each query as many as heads share its tile",
            },
        ),
        ("bk", "blocks of", "keys", spec.bk, unit, LARGEST, "the keys of a block are K of the second product's WGMMA"),
        (
            "bn",
            "heads of",
            "columns",
            spec.bn,
            unit,
            WIDEST,
            "they are K of the first product's WGMMA and N of the second's",
        ),
    ];
    for (key, what, of, value, unit, most, why) in sides {
        if value == 0 || value > most || !value.is_multiple_of(unit) {
            errors.push(PlanError::new(
                key,
                format!("{what} {value} {of} are not supported"),
                format!("{why}: a multiple of {unit} up to {most}"),
                format!("{key} = {}", (value / unit * unit).clamp(unit, most)),
            ));
        }
    }
    check_depth(spec, unit, errors);
    match spec.a.is_fp8() || spec.b.is_fp8() {
        true => fp8::check(spec, errors),
        false => {
            check::check_types(
                spec,
                "O",
                "O is staged in the buffer of Q, so their elements have the same size",
                errors,
            );
        }
    }
    check_pack(spec, errors);
    check_page(spec, errors);
    slices::check(spec, (ROWS, WIDEST_ALONE), errors);
    list::check(spec, errors);
    check_early(spec, errors);
    if spec.split.is_on() && spec.bn > WIDEST_SPLIT && spec.bn <= WIDEST {
        errors.push(PlanError::new(
            Key::Split.as_str(),
            format!("split is not supported for heads of {} columns", spec.bn),
            format!(
                "the fix-up needs a partial beside the {} registers of O in a thread; up to {WIDEST_SPLIT} columns fit without spills",
                spec.bn / 2
            ),
            "split = off",
        ));
    }
    if spec.consumers == Some(1) && spec.bn > WIDEST_ALONE && spec.bn <= WIDEST {
        errors.push(PlanError::new(
            Key::Consumers.as_str(),
            format!("tiles of one consumer are not supported for heads of {} columns", spec.bn),
            format!(
                "two CTAs share an SM, so that a thread has 128 registers, and O += P V takes {} of O and 30 more; up to \
                 {WIDEST_ALONE} columns fit",
                spec.bn / 2
            ),
            "consumers = 2",
        ));
    }
    let own = |key: &Key| matches!(key, Key::Cluster | Key::Pdl) || spec.a.is_fp8() && *key == Key::Scale;
    check::check_foreign(spec, FOREIGN.into_iter().filter(|key| !own(key)), errors);
    check::check_score(spec, errors);
}

/// Refuses a start before the kernels that make the work: every list and tensor of an attention may be theirs.
fn check_early(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.pdl == Pdl::Early {
        errors.push(PlanError::new(
            Key::Pdl.as_str(),
            format!("pdl = {} is not supported for op = {}", spec.pdl, spec.op),
            "it reads the sparse operand early, and an attention has none: all that it reads may be of the kernel before it",
            "pdl = on",
        ));
    }
}

fn check_depth(spec: &KernelSpec, unit: u32, errors: &mut PlanErrors) {
    if let Some(depth) = spec.d.filter(|depth| *depth == 0 || *depth > WIDEST || !depth.is_multiple_of(unit)) {
        errors.push(PlanError::new(
            Key::D.as_str(),
            format!("Q and K of {depth} columns are not supported"),
            format!("they are K of the first product's WGMMA: a multiple of {unit} up to {WIDEST}"),
            format!("d = {}", (depth / unit * unit).clamp(unit, WIDEST)),
        ));
    }
}

/// A page is one box of a step, or several steps are of one page.
fn check_page(spec: &KernelSpec, errors: &mut PlanErrors) {
    let Some(page) = spec.page else { return };
    let [least, most] = PAGES;
    if !page.is_power_of_two() || page < least || page > most {
        errors.push(PlanError::new(
            Key::Page.as_str(),
            format!("pages of {page} keys are not supported"),
            format!("a page is found by shifts, and a box of TMA has at least {least} of its keys: a power of 2 from {least} to {most}"),
            format!("page = {}", (1 << page.max(1).ilog2()).clamp(least, most)),
        ));
        return;
    }
    let fits = |step: u32| {
        step > 0 && (step.is_multiple_of(page) || page.is_multiple_of(step)) && spec.bk.is_multiple_of(step)
    };
    if let Some(step) = spec.k_step.filter(|step| !fits(*step)) {
        errors.push(PlanError::new(
            Key::KStep.as_str(),
            format!("steps of {step} keys are not supported for pages of {page}"),
            format!("a step divides bk = {}, and has whole pages or a part of one", spec.bk),
            "drop `k_step`: the plan takes the largest that fits",
        ));
    }
}

/// Heads that share a tile divide the queries of a consumer; none of them has a score of its own.
fn check_pack(spec: &KernelSpec, errors: &mut PlanErrors) {
    let legal = |heads: u32| format!("pack_heads = {}", (1 << heads.max(1).ilog2()).min(ROWS));
    if let Some(heads) = spec.pack {
        errors.push(PlanError::new(
            Key::Pack.as_str(),
            format!("op = {} has no `pack`", Op::Attention),
            "`pack` is the number of block rows that share a CTA tile; for heads of Q it is `pack_heads`",
            legal(heads),
        ));
    }
    let Some(heads) = spec.pack_heads.filter(|heads| *heads != 1) else { return };
    if !heads.is_power_of_two() || heads > ROWS {
        errors.push(PlanError::new(
            Key::PackHeads.as_str(),
            format!("{heads} heads cannot share a tile"),
            format!("`pack_heads` divides the {ROWS} rows of a consumer: a power of 2 up to {ROWS}"),
            legal(heads),
        ));
    }
    let Some(program) = spec.score.map(|score| score.program()) else { return };
    let vector = program.inputs().iter().find(|input| input.kind != InputKind::Scalar).map(|input| input.name.as_str());
    if let Some(name) = vector.or(program.names_head().then_some("head")) {
        errors.push(PlanError::new(
            Key::PackHeads.as_str(),
            "heads that share a tile cannot have different scores",
            format!("the score reads `{name}`, which a tile loads once for all of its heads"),
            format!("drop `pack_heads`, or `{name}`"),
        ));
    }
}
