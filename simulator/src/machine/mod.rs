//! The state of one running cluster and how an instruction acts on it.

pub(crate) mod cta;
mod dependent;
mod exchange;
pub(crate) mod global;
pub(crate) mod im2col;
pub(crate) mod in_flight;
pub(crate) mod launch;
mod local;
mod local_access;
pub(crate) mod map_bytes;
pub(crate) mod mbarrier;
pub(crate) mod memory;
pub(crate) mod overlay;
pub(crate) mod released;
mod remedy;
mod report;
mod sparse;
mod state;
mod strong;
pub(crate) mod tensor_map;
pub(crate) mod warp;
pub(crate) mod warpgroup;
mod watch;
pub(crate) mod watched;

pub(crate) use state::{Exec, Flow, Machine, Stop};
