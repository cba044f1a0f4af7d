//! The product as sparse x dense, in the words of a spec.
//!
//! Of C = A B with a sparse B it is C^T = B^T A^T; see [`SparseTimesDense`]. A spec that is seen so has the rows and the depth of
//! a block as it is multiplied in `bm` and `bk`, the sparse factor in `a`, the dense one in `b` and `b_layout`, and the result in
//! `c_layout`. Its `transpose` says that a block's rows are contiguous along M, and its `op` is still the one that was asked for.

use crate::plan::{Major, Operand, Problem, SparseTimesDense};
use crate::{KernelSpec, Layout, Op, Switch};

pub(crate) fn of(asked: &KernelSpec) -> KernelSpec {
    let view = SparseTimesDense::new(asked);
    KernelSpec {
        bm: view.rows,
        bk: view.depth,
        a: view.sparse_type,
        b: view.dense_type,
        a_layout: Layout::RowMajor,
        b_layout: view.dense,
        c_layout: view.out,
        transpose: if view.sparse == Major::Mn { Switch::On } else { Switch::Off },
        ..*asked
    }
}

/// Is it the transposed product?
fn is_turned(seen: &KernelSpec) -> bool {
    seen.op == Op::Dds
}

/// Are the lines of C in memory rows of C as the caller has it?
pub(crate) fn stores_rows(seen: &KernelSpec) -> bool {
    (seen.c_layout == Layout::RowMajor) != is_turned(seen)
}

/// The operands as the caller has them: the sparse one and the dense one.
pub(crate) fn factors(seen: &KernelSpec) -> (Operand, Operand) {
    if is_turned(seen) { (Operand::B, Operand::A) } else { (Operand::A, Operand::B) }
}

/// The sizes of the product as it is seen: `ldb` is the dense factor's.
pub(crate) fn sizes(seen: &KernelSpec, problem: &Problem) -> Problem {
    let Problem { m, n, lda, .. } = *problem;
    if is_turned(seen) { Problem { m: n, n: m, ldb: lda, ..*problem } } else { *problem }
}

/// The rows of the sparse factor are what is contiguous in a block.
pub(crate) fn is_along_m(seen: &KernelSpec) -> bool {
    seen.transpose.is_on()
}
