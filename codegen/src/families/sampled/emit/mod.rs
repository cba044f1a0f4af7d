//! Sampled products: TMA, mbarriers, WGMMA.

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

pub(crate) fn directives(plan: &SampledPlan) -> Vec<String> {
    vec![format!(".maxntid {}, 1, 1", plan.tiling.roles.threads), ".minnctapersm 1".to_owned()]
}
