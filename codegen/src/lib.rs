//! From a kernel spec to Hopper PTX, in pure Rust.
//!
//! One direction: [`KernelSpec`] (what was asked) -> [`Plan`] (every number) -> [`Ptx`] (text).

pub mod arch;
pub mod emit;
pub mod epilogue;
pub mod plan;
pub mod spec;

pub use arch::Arch;
pub use emit::Ptx;
pub use epilogue::Epilogue;
pub use plan::{
    Argument, ClusterTile, LaunchShape, Multicast, Operand, Packing, Parameter, Parameters, Plan, PlanError,
    PlanErrors, Problem, Profile, ProfileFamily, Sampling, TensorMap, Walk,
};
pub use spec::{Accumulate, Dtype, KernelSpec, Layout, Mma, Op, Scale, Schedule, Shape, Switch, Target};
