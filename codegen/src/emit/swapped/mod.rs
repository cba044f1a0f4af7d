//! Hopper's family with operands swapped: dense columns are WGMMA's rows.

mod batch;
mod consumer;
mod context;
mod fused;
mod producer;
mod store;

use super::templates;
use crate::plan::swapped::Plan;

/// The instructions of a kernel.
pub(crate) fn body(plan: &Plan) -> String {
    templates::render("swapped/body.ptx", &context::Context::new(plan))
}
