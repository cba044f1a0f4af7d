//! The extents of a product and of its factors as they are stored.

use bsr::{KernelSpec, Op};

/// M, N and K of a product, and its factors as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Sizes {
    pub(in super::super) m: usize,
    pub(in super::super) n: usize,
    pub(in super::super) k: usize,
    /// Rows and columns of the sparse operand as it is stored.
    pub(in super::super) sparse: (usize, usize),
    /// Rows and columns of the dense factor; of B where both are.
    pub(in super::super) dense: (usize, usize),
    /// The extent of C along the dense factor: N, or M where B is sparse; K where C is.
    pub(in super::super) along: usize,
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
