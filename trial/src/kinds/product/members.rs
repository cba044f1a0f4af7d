//! Lists of products whose tiles end at every place of a loop that handles several stages.
//!
//! A kernel reads ahead in a loop that is unrolled, and each copy of its code begins the next product at some time. Here one
//! cluster has a tile of each product, and the tiles have odd and even numbers of stages.

use super::scale::Scale;
use super::sizes::Sizes;

/// Stages of each product's tile; those of a kernel of which a tile takes long.
const STAGES: &[usize] = &[3, 1, 2, 2, 1, 3];
const FEW_STAGES: &[usize] = &[1, 2, 1];

impl Scale {
    /// The products of the list: they differ in every extent.
    pub(super) fn members(&self) -> Vec<Sizes> {
        let stages = if self.is_large() { FEW_STAGES } else { STAGES };
        stages.iter().enumerate().map(|(at, stages)| self.one_tile(at, *stages)).collect()
    }

    /// Product number `at`, which has a tile of so many stages.
    fn one_tile(&self, at: usize, stages: usize) -> Sizes {
        let shorter = |extent: usize, by: usize| extent - by % extent;
        let (blocks, along) = match self.sparse_c {
            true => (1, shorter(stages * self.stage, at)),
            false => (self.gathered * (stages - 1) + 1, shorter(self.tile, 3 * at)),
        };
        Sizes {
            lengths: (0..self.pack).map(|row| if row == 0 { blocks } else { row % 2 }).collect(),
            columns: blocks,
            last_rows: shorter(self.block.0, at),
            last_columns: shorter(self.block.1, 5 * at),
            along,
            clusters: Some(1),
        }
    }
}
