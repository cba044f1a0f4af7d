//! Hopper's family with operands swapped: dense columns are WGMMA's rows.

mod batch;
mod consumer;
mod context;
mod fused;
mod producer;
mod rows;
mod store;

use super::plan::SwapAbPlan;
use crate::emit::templates;

/// The instructions of a kernel.
pub(crate) fn body(plan: &SwapAbPlan) -> String {
    templates::render("swap_ab/body.ptx", &context::Context::new(plan))
}
