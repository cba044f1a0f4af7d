//! Block-sparse attention by `mma.sync`, for every GPU from Ampere on: O = softmax(scale * Q K^T) V, where Q K^T is computed in
//! its stored blocks alone.
//!
//! Each warp has 16 queries, whose Q stays in its registers, and all warps of a CTA share the steps of K and V, which they copy
//! into a ring by `cp.async`. A warp computes S = Q K^T of a step, turns it into probabilities against a running maximum, and
//! multiplies these by V from registers, as they are the A operand of the second product. Copies of later steps are in flight
//! meanwhile, and a second CTA of the SM, or other warps, compute while one waits.

mod emit;
mod kernel;
mod plan;

pub(crate) use plan::AttentionWarpPlan;
