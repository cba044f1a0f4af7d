//! The text of a kernel: `cp.async`, `ldmatrix`, `mma.sync`, a softmax in registers.

mod context;
mod copies;
mod products;

use super::plan::AttentionWarpPlan;
use crate::emit::templates;

/// The instructions of a kernel.
pub(crate) fn body(plan: &AttentionWarpPlan) -> String {
    templates::render("attention_warp/body.ptx", &context::Context::new(plan))
}
