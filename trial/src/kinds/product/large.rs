//! Problems of kernels of which a tile takes long.
//!
//! Most of them are those of one cluster, which has as many tiles as one of two has elsewhere. Where several tiles cover the
//! rows of a block, few block rows have enough of them, and M ends after the first of the last block row: it is the longest.

use super::scale::Scale;
use super::{EFFORT, Kind};

/// Tiles of a cluster: the third is the first whose staging buffer was used before.
const TILES: usize = 3;

impl Scale {
    /// Whether a single tile takes so long that most problems are those of one cluster.
    pub(super) fn is_large(&self) -> bool {
        !self.scalar && !self.sparse_c && self.effort(&[1], self.tile) > EFFORT / 12
    }

    /// Blocks in each row of `kind`, where they are fewer.
    pub(super) fn few(&self, kind: Kind, round: usize) -> Option<Vec<usize>> {
        let (ring, pack, slices) = (self.ring, self.pack, self.slices);
        // Block rows that make up so many tiles, two at least.
        let rows_of = |tiles: usize| tiles.div_ceil(slices).max(2) * pack;
        match kind {
            // Those of two clusters.
            Kind::Whole => Some([2, 1].into_iter().cycle().take(rows_of(2 * TILES).min(4 * pack)).collect()),
            Kind::Ragged => Some(vec![2, 1]),
            Kind::Uneven if slices > 1 => Some(vec![0, ring + 1, 3 * ring + 1]),
            Kind::Uneven => Some([3 * ring + 1, 0, 1, ring + 1].into_iter().cycle().take(TILES * pack + 1).collect()),
            // The tile after a long one is another slice of it, or the first one of a batch's second problem.
            Kind::FullRow if slices > 1 => Some(vec![1, self.second_batch() + round]),
            Kind::EmptyRows => Some(vec![0, 1, 0, 2]),
            Kind::Alone if slices > 1 => Some(vec![1; rows_of(TILES + 1)]),
            Kind::Alone => Some(self.alone(TILES)),
            Kind::Negative | Kind::LastPair => Some(vec![1, 2]),
            Kind::NoBlocks => Some(vec![0; if slices > 2 { 1 } else { 2 * pack }]),
            _ => None,
        }
    }

    /// Rows of a large kernel's last block row that lie in M, where several tiles cover a block: those of a tile and a part of
    /// the next, or of a part alone where all but one of them are left.
    pub(super) fn first_slices(&self, kind: Kind) -> usize {
        let slice = self.block.0 / self.slices;
        let two = self.slices > 2 || kind == Kind::FullRow && self.products == 1;
        slice / 3 + if two { slice } else { 0 }
    }
}
