//! Iterative solvers that stay on the GPU: conjugate gradients, BiCGStab and GMRES, with block Jacobi as preconditioner.
//!
//! A [`Solver`] has a matrix on a GPU, the vectors of an iteration, and a CUDA graph of several iterations. The host looks at
//! the state between graphs alone; kernels check the residual, and do nothing once it is small enough.
//! [`simulate`] runs the same kernels on the simulator, and [`on_host`] the same methods on the CPU.
//!
//! ```no_run
//! use bsr_runtime::gpu::Device;
//! use bsr_runtime::solve::{self, Method, Options, Preconditioner};
//! # fn solved(a: &bsr_runtime::Bsr<f64>, b: &[f64]) -> Result<(), solve::SolveError> {
//! let device = Device::open(0)?;
//! let mut solver = solve::Solver::new(&device, a, Method::Cg, Preconditioner::BlockJacobi)?;
//! let solution = solver.solve(b, &mut Options::default())?;
//! println!("{} iterations, |r| = {:.1e}", solution.iterations, solution.residual);
//! # Ok(())
//! # }
//! ```

mod engine;
mod error;
mod gpu;
mod host;
mod jacobi;
mod request;
#[cfg(feature = "simulator")]
mod simulated;

pub use bsr_codegen::solver::Method;

pub use error::{Breakdown, SolveError};
pub use gpu::Solver;
pub use host::on_host;
#[doc(hidden)]
pub use host::on_host_into;
#[doc(hidden)]
pub use jacobi::inverses;
pub use request::{Options, Preconditioner, Solution};
#[cfg(feature = "simulator")]
pub use simulated::simulate;
