//! The instructions of the warp family.

mod boxes;
mod context;
mod copies;
mod division;
mod doubles;
mod epilogue;
mod full;
mod fused;
mod multiply;
mod operands;
mod roles;
pub(super) mod sampled;
mod sources;
mod split;
mod words;
mod work_tile;

use boxes::Boxes;
use context::Context;
pub(super) use fused::operand_trips;
use roles::Roles;

use super::plan::WarpPlan;
use crate::emit::templates;

/// The instructions of a kernel.
pub(super) fn body(plan: &WarpPlan) -> String {
    if plan.spec.load.has_roles() {
        return templates::render("warp/roles.ptx", &Roles::new(plan, context(plan), Boxes::new));
    }
    templates::render("warp/body.ptx", &context(plan))
}

fn context(plan: &WarpPlan) -> Context<'_> {
    Context::new(plan, (plan.work_tile_words(), plan.role_word()))
}
