//! Hopper's swap-AB family: dense columns are WGMMA's rows.

mod batch;
mod context;
mod epilogue;
mod fused;
mod mainloop;
mod producer;
mod staging;

use super::plan::SwapAbPlan;
use crate::hopper;

/// The instructions of a kernel.
pub(crate) fn body(plan: &SwapAbPlan) -> String {
    hopper::body("swap_ab/body.ptx", &plan.spec, &context::Context::new(plan))
}
