//! Kernels on the simulator beside those of the tables: every operation at ragged shapes, and what is refused in words.

#![allow(clippy::unwrap_used)]

mod far_blocks;
mod fused;
mod operations;
mod products;
mod scalar;
mod sddmm;
mod sddmm_batch;
mod sddmm_fused;
mod spgemm;
mod warp;

use bsr_codegen::Plan;
use bsr_runtime::simulated::Simulated;

/// The kernel of a spec that plans.
fn kernel(spec: &str) -> Simulated {
    simulated(
        &Plan::new(&spec.parse().unwrap_or_else(|error| panic!("{error}"))).unwrap_or_else(|error| panic!("{error}")),
    )
}

/// The kernel of a plan.
fn simulated(plan: &Plan) -> Simulated {
    let ptx = plan.ptx();
    Simulated::new(plan, ptx.text(), ptx.entry()).unwrap()
}
