//! Hopper's family with operands swapped: dense columns are WGMMA's rows.

mod batch;
mod context;
mod epilogue;
mod fused;
mod mainloop;
mod producer;
mod staging;

use super::plan::SwapAbPlan;
use crate::emit::templates;

/// The instructions of a kernel.
pub(crate) fn body(plan: &SwapAbPlan) -> String {
    templates::render("swap_ab/body.ptx", &context::Context::new(plan))
}
