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
mod sources;
mod split;
mod words;
mod work_tile;

use context::Context;

use super::plan::WarpPlan;
use crate::emit::templates;

/// The instructions of a kernel.
pub(super) fn body(plan: &WarpPlan) -> String {
    if plan.spec.load.has_roles() {
        return roles::body(plan);
    }
    templates::render("warp/body.ptx", &Context::new(plan))
}
