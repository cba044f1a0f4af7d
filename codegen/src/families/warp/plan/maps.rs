//! The tensor maps of operands that TMA loads.

use super::{WarpPlan, seen};
use crate::plan::{Problem, TensorMap};
use crate::{KernelSpec, Layout, Load};

impl WarpPlan {
    /// Those of both factors; none of a kernel that finds them at addresses.
    pub(crate) fn maps(&self, problem: &Problem) -> Vec<TensorMap> {
        if self.spec.load == Load::Tma { vec![self.map_a(problem), self.map_b(problem)] } else { vec![] }
    }

    /// The stored blocks, one below another: zeros right of a block.
    pub(crate) fn map_a(&self, problem: &Problem) -> TensorMap {
        let KernelSpec { bm, bk, a, .. } = self.spec;
        let ((width, height), lines) = match self.lines() {
            false => ((bk, bm), self.a.rows),
            true => ((bm, bk), self.kloop.k_step),
        };
        TensorMap::matrix(
            (seen::factors(&self.spec).0, a),
            [u64::from(width), (problem.nnzb * u64::from(height)).max(1)],
            u64::from(width * a.bytes()),
            [self.a.span() / a.bytes(), self.a.box_lines(lines, &self.arch)],
            self.a.span(),
        )
    }

    /// The dense factor: zeros beyond K and N.
    pub(crate) fn map_b(&self, problem: &Problem) -> TensorMap {
        let dtype = self.spec.b;
        let (dims, lines) = match self.spec.b_layout {
            Layout::RowMajor => ([problem.n.max(1), problem.k.max(1)], self.kloop.k_step),
            Layout::ColMajor => ([problem.k.max(1), problem.n.max(1)], self.b.rows),
        };
        TensorMap::matrix(
            (seen::factors(&self.spec).1, dtype),
            dims,
            (problem.ldb * u64::from(dtype.bytes())).max(16),
            [self.b.span() / dtype.bytes(), self.b.box_lines(lines, &self.arch)],
            self.b.span(),
        )
    }
}
