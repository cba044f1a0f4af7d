//! Step 1: can this family plan the block, the types and the keys?

use super::tiling::{ROWS, UNIT};
use crate::KernelSpec;
use crate::plan::{PlanError, PlanErrors};
use crate::scores::check::{self, FOREIGN};
use crate::spec::Key;

/// Largest block along each dimension.
const LARGEST: u32 = 512;
/// Widest head: O and Q of more columns do not fit the registers of a warp's 16 queries.
const WIDEST: u32 = 128;

pub(super) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    let fewest = ROWS[0];
    let sizes = [
        ("bm", "query rows of a block", spec.bm, fewest, LARGEST, "a CTA has 4 or 8 warps of 16 queries"),
        ("bk", "keys of a block", spec.bk, UNIT, LARGEST, "they are K of the second product's mma.sync"),
        ("bn", "columns of V", spec.bn, UNIT, WIDEST, "a thread has those of O, and of Q, of two queries in registers"),
        ("d", "columns of Q and K", spec.score_depth(), UNIT, WIDEST, "they are K of the first product's mma.sync"),
    ];
    let asked = |key: &str| key != "d" || spec.d.is_some();
    for (key, what, value, unit, most, why) in sizes.into_iter().filter(|(key, ..)| asked(key)) {
        if value == 0 || value > most || !value.is_multiple_of(unit) {
            errors.push(PlanError::size(key, what, value, (unit, most), why));
        }
    }
    check::check_types(spec, "O", "O is staged where Q was, so their elements have the same size", errors);
    let own = |key: &Key| *key != Key::CtaM;
    check::check_foreign(spec, FOREIGN.into_iter().filter(own).chain([Key::Shape, Key::Tf32]), errors);
    check::check_score(spec, errors);
    if spec.says(Key::Split) {
        errors.push(PlanError::new(
            Key::Split.as_str(),
            "attentions with mma = mma_sync have no `split`",
            "their CTAs have all keys of their queries and pass no sums on",
            "drop `split`, or mma = wgmma",
        ));
    }
    if let Some(rows) = spec.cta_m.filter(|rows| !ROWS.contains(rows) || !spec.bm.is_multiple_of(*rows)) {
        errors.push(PlanError::new(
            Key::CtaM.as_str(),
            format!("a CTA cannot have {rows} queries"),
            format!("it has {} or {}, 4 or 8 warps of 16, and they divide bm = {}", ROWS[0], ROWS[1], spec.bm),
            "drop `cta_m`: the plan takes 64",
        ));
    }
    if let Some(step) = spec.k_step.filter(|step| !super::tiling::divides(spec, *step)) {
        errors.push(PlanError::new(
            Key::KStep.as_str(),
            format!("steps of {step} keys are not supported for blocks of {}", spec.bk),
            format!("a step is a multiple of {UNIT} up to {} that divides bk", super::tiling::WIDEST_STEP),
            "drop `k_step`: the plan takes the largest that fits",
        ));
    }
}
