//! The extents of a product and of its factors as they are stored.

use bsr_codegen::{KernelSpec, Op};

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
    pub(super) fn new(spec: &KernelSpec, (m, n, k): (usize, usize, usize)) -> Self {
        let turned = |(rows, cols)| if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
        match spec.op {
            Op::Dds => Self { m, n, k, sparse: turned((k, n)), dense: (m, k), along: m },
            Op::Sdd => Self { m, n, k, sparse: turned((m, n)), dense: (k, n), along: k },
            _ => Self { m, n, k, sparse: turned((m, k)), dense: (k, n), along: n },
        }
    }
}
