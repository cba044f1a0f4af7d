//! What no problem of an SDDMM executes.

use bsr_codegen::{Plan, Schedule};

use super::reason::{Reason, goes_to, in_section};

pub(super) const REASONS: &[Reason] = &[
    (
        |_, before, plan| {
            let whole = before.is_some_and(|before| goes_to(before, "$whole_"));
            whole && plan.sddmm_tiles().is_some() && !shares_k(plan)
        },
        "the K of a tile is shared between CTAs with schedule = balanced alone, and not in a batch",
    ),
    (
        |at, _, plan| plan.sddmm_tiles().is_some() && in_section(at, &["A split-K partial"]),
        "parts come first in a CTA's list, before the ring of items ends",
    ),
];

fn shares_k(plan: &Plan) -> bool {
    plan.spec().schedule == Some(Schedule::Balanced) && !plan.spec().batch.is_on()
}
