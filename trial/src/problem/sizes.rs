//! The extents of a product and of its factors as they are stored.

use bsr_codegen::KernelSpec;
use bsr_runtime::Extents;

/// M, N and K of a product, and its factors as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Rows and columns of the sparse operand as it is stored.
    pub sparse: (usize, usize),
    /// Rows and columns of the dense factor; of B where both are.
    pub dense: (usize, usize),
    /// The extent of C along the dense factor: N, or M where B is sparse; K where C is.
    pub along: usize,
}

impl Sizes {
    pub(super) fn new(spec: &KernelSpec, extents: Extents) -> Self {
        let Extents { m, n, k } = extents;
        let (sparse, dense) = (extents.stored(spec), extents.dense(spec.op));
        Self { m, n, k, sparse, dense, along: extents.along(spec.op) }
    }

    /// M, N and K alone.
    pub(crate) fn extents(&self) -> Extents {
        let Self { m, n, k, .. } = *self;
        Extents { m, n, k }
    }
}
