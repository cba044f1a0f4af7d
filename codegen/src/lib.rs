//! From a kernel spec to Hopper PTX, in pure Rust.
//!
//! One direction: [`KernelSpec`] (what was asked) -> [`Plan`] (every number) -> [`Ptx`] (text).

pub mod arch;
pub mod emit;
pub mod plan;
pub mod spec;

pub use arch::Arch;
pub use emit::Ptx;
pub use plan::{ClusterTile, LaunchShape, Operand, Plan, PlanError, PlanErrors, Problem, TensorMap};
pub use spec::{Dtype, KernelSpec, Layout, Mma, Op, Schedule};
