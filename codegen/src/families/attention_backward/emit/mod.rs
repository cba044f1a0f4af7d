//! A gradient: TMA, mbarriers, WGMMA; P and dS in registers.

mod context;
mod probability;
mod product;
mod score;
mod sums;

use super::plan::GradientPlan;
use crate::hopper;

/// The instructions of a kernel.
pub(crate) fn body(plan: &GradientPlan) -> String {
    hopper::body("attention_backward/body.ptx", &plan.spec, &context::Context::new(plan))
}
