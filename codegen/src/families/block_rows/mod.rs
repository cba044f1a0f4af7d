//! Hopper's family: a producer warp feeds warpgroups through TMA, which multiply with `wgmma`.
//!
//! [`BlockRowsPlan::new`] reads like a recipe; each step has its own file and reports every reason why a spec cannot be
//! planned, with the arithmetic and a remedy.

mod emit;
mod kernel;
mod plan;

pub(crate) use plan::BlockRowsPlan;
