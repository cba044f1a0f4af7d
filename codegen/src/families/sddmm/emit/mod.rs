//! SDDMM: TMA, mbarriers, WGMMA.

mod consumer;
mod context;
mod fused;
mod producer;
mod staging;
mod store;

use super::plan::SddmmPlan;
use crate::hopper;

/// The instructions of a kernel.
pub(crate) fn body(plan: &SddmmPlan) -> String {
    hopper::body("sddmm/body.ptx", &plan.spec, &context::Context::new(plan))
}
