//! Which frame a kernel has.

use super::SolverKernel;
use super::krylov::Krylov;
use super::steps::Body;

/// The frame of a kernel, with what differs in it.
pub(super) enum Frame {
    /// A kernel on whole vectors.
    Vectors(Body),
    /// A kernel on the basis of GMRES, or on what is small.
    Basis(Krylov),
}

impl Frame {
    pub(super) fn of(kernel: SolverKernel) -> Self {
        Body::of(kernel).map_or_else(|| Self::Basis(Krylov::of(kernel)), Self::Vectors)
    }

    pub(super) fn comment(&self) -> &'static str {
        match self {
            Self::Vectors(body) => body.comment,
            Self::Basis(krylov) => krylov.comment,
        }
    }

    /// Vectors that a launch of a column reads and writes at least, and whether it reads the inverses of the diagonal blocks.
    pub(super) fn vectors_moved(&self, is_preconditioned: bool, column: u32) -> (u64, bool) {
        match self {
            Self::Vectors(body) => {
                let stores = body.stores(is_preconditioned).count();
                ((body.loads.len() + stores) as u64, body.preconditions.is_some())
            }
            Self::Basis(krylov) => {
                (u64::from(krylov.vectors + u32::from(krylov.reads_basis) * (column + 1)), krylov.preconditions)
            }
        }
    }
}
