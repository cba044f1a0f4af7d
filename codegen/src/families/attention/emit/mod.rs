//! Attention: TMA, mbarriers, WGMMA, a softmax in registers.

mod block_factors;
mod context;
mod exchange;
mod fp8;
mod pages;
mod product;
mod slices;

use super::plan::AttentionPlan;
use crate::hopper;

/// The instructions of a kernel.
pub(crate) fn body(plan: &AttentionPlan) -> String {
    hopper::body("attention/body.ptx", &plan.spec, &context::Context::new(plan))
}
