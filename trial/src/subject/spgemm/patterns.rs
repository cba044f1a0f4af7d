//! The patterns of B and of a sparse C beside that of A.

use bsr_codegen::KernelSpec;
use bsr_runtime::{Pattern, Structure};

use crate::Failure;
use crate::kinds::Member;
use crate::workload::second_factor;

/// Part of the blocks of B and of a C that a check draws.
const HALF: f64 = 0.5;

/// Where the blocks of B are, and those of C that are computed.
pub(super) struct Patterns {
    pub(super) b: Structure,
    /// None of a dense C.
    pub(super) c: Option<Structure>,
}

impl Patterns {
    /// Blocks of B at random, as large a part of all as A has, and a C that has all blocks of the product.
    ///
    /// # Errors
    /// Sizes beyond 32 bits.
    pub(super) fn of_density(spec: &KernelSpec, a: &Structure, n: usize, seed: u64) -> Result<Self, Failure> {
        let b = second_factor(spec, a, (n, a.density()), seed)?;
        let c = spec.op.stores_blocks().then(|| a.product(&b)).transpose()?;
        Ok(Self { b, c })
    }

    /// Those of a check's problem. Of four, two have all blocks of B, so that sums are as long as A's rows, and two half of
    /// them; a C has the blocks of the product, or half of all blocks, those without a pair included.
    ///
    /// # Errors
    /// Sizes beyond 32 bits.
    pub(super) fn of_kind(spec: &KernelSpec, Member { structure: a, n, seed }: &Member) -> Result<Self, Failure> {
        let b = second_factor(spec, a, (*n, if seed % 4 < 2 { HALF } else { 1.0 }), *seed)?;
        let chosen = || Pattern::Random(HALF).structure(a.rows(), *n, (spec.bm as usize, spec.bn as usize), *seed);
        let c = spec.op.stores_blocks().then(|| if seed % 2 == 0 { a.product(&b) } else { chosen() });
        Ok(Self { b, c: c.transpose()? })
    }

    /// Pairs of stored blocks that are multiplied.
    ///
    /// # Errors
    /// More than 32 bits count.
    pub(super) fn pairs(&self, a: &Structure) -> Result<u64, Failure> {
        Ok(a.pairs(&self.b, self.c.as_ref())?)
    }
}

/// Multiplications of so many pairs of blocks.
pub(super) fn multiplications(spec: &KernelSpec, pairs: u64) -> u64 {
    [spec.bm, spec.bn, spec.bk].into_iter().fold(pairs, |all, side| all.saturating_mul(side.into()))
}
