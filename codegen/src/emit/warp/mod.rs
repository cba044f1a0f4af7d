//! The warp family: `ldmatrix` and `mma.sync`, or `wmma` fragments.

mod context;
mod epilogue;
mod fetch;
mod lanes;
mod multiply;

pub(crate) use multiply::instruction;

use super::templates;
use crate::plan::warp::Plan;

/// The instructions of a kernel.
pub(crate) fn body(plan: &Plan) -> String {
    templates::render("warp/body.ptx", &context::Context::new(plan))
}
