//! SDDMM: TMA, mbarriers, WGMMA.

mod consumer;
mod context;
mod fused;
mod producer;
mod staging;
mod store;

use super::plan::SampledPlan;
use crate::hopper;

/// The instructions of a kernel.
pub(crate) fn body(plan: &SampledPlan) -> String {
    hopper::body("sampled/body.ptx", &plan.spec, &context::Context::new(plan))
}
