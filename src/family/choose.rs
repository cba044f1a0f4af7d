//! How a member of a family is chosen for a problem.

use bsr_codegen::{KernelSpec, Op, Operand};
use bsr_runtime::extents::sparse_operand;
use bsr_runtime::{Extents, Features, Structure};

use super::Member;

/// Chooses a member for a problem.
///
/// The members are those that can multiply it: they have its element types and its blocks. There is one at least.
pub trait Chooser {
    /// The number of the chosen one in `members`.
    fn choose(&self, members: &[&'static Member], problem: &ProblemFacts) -> usize;
}

/// What a [`Chooser`] may know of a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProblemFacts {
    /// Which matrix is sparse.
    pub op: Op,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Elements that are summed.
    pub k: usize,
    /// Rows and columns of a sparsity block.
    pub block: (usize, usize),
    /// Stored blocks, how they lie.
    pub features: Features,
}

impl ProblemFacts {
    /// The facts of a product as `spec` says it, by the pattern of its sparse matrix and the third extent: N where A is
    /// sparse, M where B is, K where C is.
    pub fn new(spec: &KernelSpec, sparse: &Structure, dense_extent: usize) -> Self {
        let Extents { m, n, k } = Extents::of_stored(spec, (sparse.rows(), sparse.cols()), dense_extent);
        Self { op: spec.op, m, n, k, block: sparse.block(), features: Features::of(sparse) }
    }

    /// The extent that the width of the dense tile divides; none of SDDMM, whose tiles are blocks.
    fn tiled(&self) -> Option<usize> {
        let dense_extent = Extents { m: self.m, n: self.n, k: self.k }.along(self.op);
        (sparse_operand(self.op) != Operand::C).then_some(dense_extent)
    }

    pub(super) fn has_blocks_of(&self, spec: &KernelSpec) -> bool {
        (spec.bm as usize, spec.bk as usize) == self.block
    }

    pub(super) fn blocks(&self) -> String {
        format!("bm = {}, bk = {}", self.block.0, self.block.1)
    }
}

/// The member whose dense tile wastes the fewest columns beyond N (rows beyond M where B is sparse), the first of these where
/// several do.
///
/// `bn = 96` wastes 96 x 3 - 256 = 32 columns of 256, `bn = 128` none. It knows nothing of speed: a family whose order
/// is from what is best in general to what is rarely best gets what it deserves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFit;

impl Chooser for FirstFit {
    fn choose(&self, members: &[&'static Member], problem: &ProblemFacts) -> usize {
        let waste = |member: &Member| {
            let bn = member.spec().bn as usize;
            problem.tiled().map_or(0, |extent| extent.div_ceil(bn) * bn - extent)
        };
        (0..members.len()).min_by_key(|at| waste(members[*at])).unwrap_or(0)
    }
}
