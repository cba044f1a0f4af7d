//! Why there is no solution.

use std::fmt;

use bsr_codegen::Refusal;
use bsr_codegen::solver::Status;

use crate::error::KernelError;
#[cfg(feature = "simulator")]
use crate::error::SimulatedError;
use crate::gpu::GpuError;

/// Why there is no solution.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SolveError {
    /// A matrix, a vector or an option that no solve takes.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The method cannot go on with this matrix.
    #[error(transparent)]
    Breakdown(#[from] Breakdown),
    /// A kernel, or the GPU.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The simulator.
    #[cfg(feature = "simulator")]
    #[error(transparent)]
    Simulated(#[from] SimulatedError),
}

bsr_codegen::message_as_debug!(SolveError);

impl From<GpuError> for SolveError {
    fn from(error: GpuError) -> Self {
        Self::Kernel(error.into())
    }
}

/// A quantity that a method divides by is zero, or has the wrong sign, or something is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// The iteration in which that was, from 1; 0 of the first residual.
    pub iteration: usize,
    status: Status,
}

impl Breakdown {
    pub(super) fn new(status: Status, iteration: usize) -> Self {
        Self { iteration, status }
    }

    /// The `info` of a solve in Python, below zero: scipy's number where it has one, of BiCGStab.
    #[doc(hidden)]
    pub fn info(self) -> i32 {
        match self.status {
            Status::Running | Status::Converged | Status::Limit | Status::NotFinite => -1,
            Status::Curvature => -2,
            Status::Singular => -3,
            Status::Rho => -10,
            Status::Shadow | Status::Omega => -11,
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self.status {
            Status::Curvature => (
                "p . A p <= 0: the matrix is not positive definite",
                "BiCGStab, or a matrix that is symmetric positive definite",
            ),
            Status::Rho => (
                "the residual is orthogonal to the first one, or the preconditioner is not positive definite",
                "another x0 or another preconditioner; conjugate gradients only for symmetric positive definite matrices",
            ),
            Status::Shadow => ("A M p is orthogonal to the first residual", "another x0, or another preconditioner"),
            Status::Omega => ("the residual does not shrink along itself", "another x0, or another preconditioner"),
            Status::Singular => (
                "the Krylov space has ended without a solution: the matrix is singular, as far as it can be told",
                "a matrix that is not singular, or a b in its range; another x0",
            ),
            Status::Running | Status::Converged | Status::Limit | Status::NotFinite => (
                "the residual is not finite",
                "finite values in the matrix, b and x0, or a smaller scale: norms are summed of squares in f64",
            ),
        }
    }
}

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fact, help) = self.words();
        write!(f, "the solve broke down in iteration {}: {fact}\n  help: {help}", self.iteration)
    }
}

impl std::error::Error for Breakdown {}
