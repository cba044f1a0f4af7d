//! Whole kernels and the memory model: written by hand and emitted by the compiler, in every schedule.
#![allow(clippy::unwrap_used)]

mod clusters;
mod common;
mod dependent;
mod emitted;
mod far;
mod gemm;
mod multistage;
mod relaxed;
mod scopes;
mod support;
