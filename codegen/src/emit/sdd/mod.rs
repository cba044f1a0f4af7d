//! Sampled products: TMA, mbarriers, WGMMA.

mod batch;
mod consumer;
mod context;
mod epilogue;
mod fused;
mod producer;

use super::templates;
use crate::plan::sdd::Plan;

/// The instructions of a kernel.
pub(crate) fn body(plan: &Plan) -> String {
    templates::render("sdd/body.ptx", &context::Context::new(plan))
}

pub(crate) fn directives(plan: &Plan) -> Vec<String> {
    vec![format!(".maxntid {}, 1, 1", plan.tiling.roles.threads), ".minnctapersm 1".to_owned()]
}
