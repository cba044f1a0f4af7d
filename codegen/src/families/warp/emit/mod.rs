//! The warp family: `ldmatrix` and `mma.sync`, or `wmma` fragments.

mod context;
mod epilogue;
mod fetch;
mod lanes;
mod multiply;

pub(crate) use multiply::instruction;

use super::plan::WarpPlan;
use crate::emit::templates;

/// The instructions of a kernel.
pub(crate) fn body(plan: &WarpPlan) -> String {
    templates::render("warp/body.ptx", &context::Context::new(plan))
}
