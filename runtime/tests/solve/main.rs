//! Iterative solvers: on the simulator, which finds no fault with their kernels, on the CPU, and on a GPU.
//!
//! Without a GPU its tests say SKIPPED on stderr and pass; with `BSR_REQUIRE_GPU` set they fail instead.
#![allow(clippy::unwrap_used)]

#[path = "../device/mod.rs"]
mod device;
mod gmres;
mod gpu;
mod problem;
mod refused;
mod simulated;
