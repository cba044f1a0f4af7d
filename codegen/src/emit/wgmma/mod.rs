//! Hopper's family: TMA, mbarriers, WGMMA.

mod batch;
mod collect;
mod consumer;
mod context;
mod epilogue;
mod fused;
mod producer;
mod scale;

pub(crate) use context::directives;

use super::templates;
use crate::plan::wgmma::Plan;

/// The instructions of a kernel.
pub(crate) fn body(plan: &Plan) -> String {
    templates::render("wgmma/body.ptx", &context::Context::new(plan))
}
