//! A product with one sparse operand in the form dense = sparse x dense, whatever the operation is.
//!
//! `dsd` is that already. C = A B with a sparse B is C^T = B^T A^T: the same product with every dense matrix read the
//! other way round, and the sparse operand transposed. So one kernel serves both, and what differs is which way
//! operands lie in memory.

use super::{Operand, Problem};
use crate::{Dtype, KernelSpec, Layout, Op};

/// Which way an operand's rows run in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Major {
    /// K is contiguous.
    K,
    /// M or N is contiguous: WGMMA reads the operand transposed.
    Mn,
}

/// Out\[m, n\] = sparse\[m, k\] * dense\[k, n\].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SparseTimesDense {
    /// B is sparse, and the product is computed as its transpose.
    pub(crate) transposed: bool,
    /// Extent of a sparsity block along m.
    pub(crate) rows: u32,
    /// Extent of a sparsity block along k.
    pub(crate) depth: u32,
    /// Which of the two is contiguous in a stored block.
    pub(crate) sparse: Major,
    /// The layout of dense\[k, n\].
    pub(crate) dense: Layout,
    /// The layout of out\[m, n\].
    pub(crate) out: Layout,
    pub(crate) sparse_type: Dtype,
    pub(crate) dense_type: Dtype,
    /// The keys that give `rows` and `depth`, for errors.
    pub(crate) keys: (&'static str, &'static str),
}

impl SparseTimesDense {
    /// A product with a sparse factor in this form. `sdd`, which has none, gets the form of `dsd`.
    pub(crate) fn new(spec: &KernelSpec) -> Self {
        let dds = spec.op == Op::Dds;
        // Both A^T * B and A * B have the block's rows along K.
        let sparse_transposed = spec.transpose.is_on() != dds;
        let (rows, depth) = if sparse_transposed { (spec.bk, spec.bm) } else { (spec.bm, spec.bk) };
        Self {
            transposed: dds,
            rows,
            depth,
            sparse: if sparse_transposed { Major::Mn } else { Major::K },
            dense: if dds { spec.a_layout.flipped() } else { spec.b_layout },
            out: if dds { spec.c_layout.flipped() } else { spec.c_layout },
            sparse_type: if dds { spec.b } else { spec.a },
            dense_type: if dds { spec.a } else { spec.b },
            keys: if sparse_transposed { ("bk", "bm") } else { ("bm", "bk") },
        }
    }

    /// Are the blocks of the stored matrix read by block column, which a second index lists?
    pub(crate) fn reads_block_columns(&self) -> bool {
        self.sparse == Major::Mn
    }

    /// The operands as the caller has them: the sparse one and the dense one.
    pub(crate) fn factors(&self) -> (Operand, Operand) {
        if self.transposed { (Operand::B, Operand::A) } else { (Operand::A, Operand::B) }
    }

    /// The sizes of out\[m, n\] = sparse\[m, k\] * dense\[k, n\]: `ldb` is the dense factor's.
    pub(crate) fn sizes(&self, problem: &Problem) -> Problem {
        let Problem { m, n, lda, .. } = *problem;
        if self.transposed { Problem { m: n, n: m, ldb: lda, ..*problem } } else { *problem }
    }
}

#[cfg(test)]
mod tests {
    use super::{Major, SparseTimesDense};
    use crate::{KernelSpec, Layout, Op, Switch};

    const SPEC: KernelSpec = KernelSpec::new(96, 128, 32);

    #[test]
    fn a_sparse_b_is_the_transposed_product() {
        let dsd = SparseTimesDense::new(&SPEC);
        assert_eq!((dsd.rows, dsd.depth, dsd.sparse), (96, 32, Major::K));
        assert_eq!((dsd.dense, dsd.out), (Layout::RowMajor, Layout::RowMajor));
        let dds = SparseTimesDense::new(&KernelSpec { op: Op::Dds, ..SPEC });
        assert_eq!((dds.rows, dds.depth, dds.sparse), (32, 96, Major::Mn));
        assert_eq!((dds.dense, dds.out), (Layout::ColMajor, Layout::ColMajor));
    }

    #[test]
    fn transposed_twice_is_as_stored() {
        let on = KernelSpec { transpose: Switch::On, ..SPEC };
        assert_eq!(SparseTimesDense::new(&on).sparse, Major::Mn);
        let dds = SparseTimesDense::new(&KernelSpec { op: Op::Dds, ..on });
        assert_eq!((dds.rows, dds.depth, dds.sparse), (96, 32, Major::K));
    }
}
