//! From a kernel spec to Hopper PTX, in pure Rust.
//!
//! One direction: [`KernelSpec`] (the request) -> [`Plan`] (every number) -> [`Ptx`] (text).

#[macro_use]
mod message;

pub mod arch;
pub mod emit;
pub mod epilogue;
mod families;
mod fingerprint;
mod hopper;
pub mod lists;
mod place;
pub mod plan;
pub mod probes;
pub mod roofs;
mod scores;
pub mod solver;
pub mod spec;
mod steps;
mod suggest;
mod words;

pub use arch::{Arch, target_runs_on};
pub use emit::Ptx;
pub use epilogue::Epilogue;
pub use message::Refusal;
pub use plan::{
    Argument, AttentionProblem, AttentionSplit, AttentionTiles, ClusterTile, Conversion, GradientProblem, GradientSide,
    GradientTiles, KernelKind, LaunchShape, Multicast, Operand, Parameter, Parameters, Plan, PlanError, PlanErrors,
    Problem, Profile, SddmmTiles, SharedColumns, SharedPairs, SplitForm, StagePacking, StridedMap, TensorMap,
    TensorMapError, TensorMapFault, TensorStrides, TileScheduler, Tiled,
};
#[doc(hidden)]
pub use plan::{ProblemRecord, Unit};
pub use spec::{
    Accumulate, Dtype, IndexWidth, KernelSpec, Layout, Load, Mma, Op, Pdl, Scale, Schedule, Shape, SplitK, Switch,
    Target,
};
