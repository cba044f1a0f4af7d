//! The sizes and the pattern of a product where the request leaves them open.

use bsr_runtime::Pattern;

use crate::request::Defaults;

/// What is multiplied where the flags leave it open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    /// Blocks in each block row, and columns of a block; none for a quarter of all blocks.
    pub(super) blocks: Option<(usize, usize)>,
}

impl Sizes {
    /// Those of a kernel with such blocks.
    pub(super) fn of(defaults: Defaults, block: (usize, usize)) -> Self {
        match defaults {
            Defaults::Gpu => Self::GPU,
            Defaults::Simulator => Self::simulator(block),
        }
    }

    /// Enough work to fill a GPU.
    pub(super) const GPU: Self = Self { m: 4096, n: 4096, k: 4096, blocks: None };

    /// A second's work for the simulator, in blocks of `(bm, bk)`: a few tiles for each of a few clusters, and more
    /// stages than a ring buffer has.
    pub(super) fn simulator((_, bk): (usize, usize)) -> Self {
        let blocks = (512 / bk.max(1)).clamp(2, 4);
        Self { m: 1024, n: 256, k: (blocks + 3) * bk, blocks: Some((blocks, bk)) }
    }

    /// The pattern of a matrix with `k` columns. Sizes that were asked for have the same one on every device.
    pub(super) fn pattern(&self, k: usize, is_of_given_sizes: bool) -> Pattern {
        match self.blocks.filter(|_| !is_of_given_sizes) {
            None => Pattern::Random(0.25),
            Some((blocks, bk)) => Pattern::TopK(blocks.min(k.div_ceil(bk.max(1)))),
        }
    }
}
