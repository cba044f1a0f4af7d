//! The problem as sparse x dense, whatever the operation is.

use bsr_codegen::{KernelSpec, Layout, Op, Operand};
use bsr_runtime::extents::sparse_operand;

use crate::{TuningProblem, operation};

/// The same view as the plan's.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Extent of a block along the rows of the product.
    pub(super) rows: f64,
    /// Extent of a block along K; of SDDMM its columns.
    pub(super) depth: f64,
    /// Extent of the dense side; K of SDDMM. B with stored blocks is as wide as one of them.
    pub(super) dense_extent: f64,
    /// The dense operand lies along K, so that rows of it are as long as a block is deep.
    pub(super) dense_is_k_major: bool,
    /// Bytes of an element of the sparse operand, of the dense one and of the result.
    pub(super) bytes: [f64; 3],
    compulsory: f64,
}

impl View {
    pub(super) fn new(spec: &KernelSpec, problem: &TuningProblem) -> Self {
        let transposed_problem = spec.op == Op::Dds;
        let transposed = sparse_operand(spec.op) != Operand::C && spec.transpose.is_on() != transposed_problem;
        let (rows, depth) = if transposed { (spec.bk, spec.bm) } else { (spec.bm, spec.bk) };
        let (sparse, dense) = if transposed_problem { (spec.b, spec.a) } else { (spec.a, spec.b) };
        Self {
            rows: f64::from(rows),
            depth: f64::from(depth),
            dense_extent: match operation::of(spec.op).has_second_factor() {
                true => spec.bn.into(),
                false => problem.dense_extent() as f64,
            },
            dense_is_k_major: (spec.op, spec.b_layout) == (Op::Dsd, Layout::ColMajor)
                || (spec.op, spec.a_layout) == (Op::Dds, Layout::RowMajor),
            bytes: [sparse, dense, spec.out].map(|dtype| f64::from(dtype.bytes())),
            compulsory: problem.least_bytes() as f64,
        }
    }

    /// Bytes that must move between memory and the GPU, each once.
    pub(super) fn compulsory_bytes(&self) -> f64 {
        self.compulsory
    }
}
