//! The vector kernels of iterative solvers that stay on the GPU ([page](../../../docs/src/solver.md)).
//!
//! An iteration is a cycle of kernels: products of a block-sparse matrix with a vector, and between them the kernels of
//! this module. All of them have one frame, and differ in data: which dot products of the kernel before they finish,
//! which vectors they read, update and write, and which dot products they begin.
//!
//! GMRES has a frame of its own for what works on the basis of the Krylov space, with single CTAs for what is small.
//!
//! The state of a solve goes around the cycle. A kernel reads the line of the one before it and
//! writes its own, so that no CTA reads what another one of the same launch writes. Once the status of a line is not
//! [`Status::Running`], all kernels after it only pass it on.

mod frames;
mod kernels;
mod krylov;
mod krylov_context;
mod operands;
mod render;
mod state;
mod steps;

pub use kernels::{Method, SolverKernel, Step};
pub use operands::{Pointer, Sum, Vector};
pub use render::SolverModule;
pub use state::{HISTORY, Header, Line, Status};
