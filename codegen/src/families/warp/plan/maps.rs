//! The tensor maps of operands that TMA loads.

use super::WarpPlan;
use crate::plan::{Operand as Side, Problem, TensorMap};
use crate::{KernelSpec, Layout};

impl WarpPlan {
    /// The stored blocks, `[nnzb * bm, bk]`: zeros right of a block.
    pub(crate) fn map_a(&self, problem: &Problem) -> TensorMap {
        let KernelSpec { bm, bk, a, .. } = self.spec;
        TensorMap::matrix(
            (Side::A, a),
            [u64::from(bk), (problem.nnzb * u64::from(bm)).max(1)],
            u64::from(bk * a.bytes()),
            [self.a.span() / a.bytes(), self.a.box_lines(self.a.rows, &self.arch)],
            self.a.span(),
        )
    }

    /// B: zeros beyond K and N.
    pub(crate) fn map_b(&self, problem: &Problem) -> TensorMap {
        let dtype = self.spec.b;
        let (dims, lines) = match self.spec.b_layout {
            Layout::RowMajor => ([problem.n.max(1), problem.k.max(1)], self.kloop.k_step),
            Layout::ColMajor => ([problem.k.max(1), problem.n.max(1)], self.b.rows),
        };
        TensorMap::matrix(
            (Side::B, dtype),
            dims,
            (problem.ldb * u64::from(dtype.bytes())).max(16),
            [self.b.span() / dtype.bytes(), self.b.box_lines(lines, &self.arch)],
            self.b.span(),
        )
    }
}
