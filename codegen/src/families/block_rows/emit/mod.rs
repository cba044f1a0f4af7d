//! Hopper's family: TMA, mbarriers, WGMMA.

mod collect;
mod consumer;
mod context;
mod fused;
mod packed;
mod pairs;
mod producer;
mod quadrants;
mod scale;
mod staging;
mod step;
mod store;
mod stored;
mod sums;
mod work_tile;

pub(crate) use context::directives;

use super::plan::BlockRowsPlan;
use crate::hopper;

/// The instructions of a kernel.
pub(crate) fn body(plan: &BlockRowsPlan) -> String {
    hopper::body("block_rows/body.ptx", &plan.spec, &context::Context::new(plan))
}
