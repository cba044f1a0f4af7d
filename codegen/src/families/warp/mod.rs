//! The warp family: every warp loads its share of a stage, multiplies its own part of the tile and stores it.
//!
//! `mma_sync` multiplies with `mma.sync` what `ldmatrix` has put into registers; `wmma` with opaque fragments.
//! [`WarpPlan::new`] decides one thing after the other, each in a file of its own.

mod emit;
mod kernel;
mod plan;
mod sampled;

pub(crate) use plan::WarpPlan;
pub(crate) use plan::sampled::SampledPlan;
