//! Which frame a kernel has.

use super::kernels::SolverKernel;
use super::krylov::Krylov;
use super::operands::{Number, Pointer};
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

    /// The addresses that a kernel is given, which are its first parameters.
    pub(super) fn pointers(&self, is_preconditioned: bool) -> Vec<Pointer> {
        let body = match self {
            Self::Vectors(body) => body,
            Self::Basis(krylov) => return krylov.pointers(is_preconditioned),
        };
        let mut pointers = vec![Pointer::State];
        pointers.extend(body.checks.then_some(Pointer::History));
        pointers.extend(body.totals.iter().map(|sum| Pointer::Sum(*sum)));
        pointers.extend(body.vectors(is_preconditioned).into_iter().map(Pointer::Vector));
        pointers.extend((is_preconditioned && body.preconditions.is_some()).then_some(Pointer::Inverse));
        pointers.extend(body.dots.iter().map(|dot| Pointer::Sum(dot.sum)));
        pointers
    }

    /// The numbers that it is given after them.
    pub(super) fn numbers(&self) -> &'static [Number] {
        match self {
            Self::Vectors(_) => &[Number::Rows],
            Self::Basis(krylov) => krylov.numbers,
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
