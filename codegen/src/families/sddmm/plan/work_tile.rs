//! The form of a work tile.

use super::tiling::Tiling;
use crate::plan::SddmmTiles;

const HEADER: u32 = SddmmTiles::HEADER;
/// Work tiles are whole vectors of 16 bytes.
const VECTOR_WORDS: u32 = 4;

/// The form of a work tile, in 32-bit words.
///
/// | words | what |
/// |---|---|
/// | 0 | first row of the left factor |
/// | 1 | first element of K |
/// | 2 | stages: at least 1 |
/// | 3 | 1 for a tile of half of the B panels, 0 for all |
/// | 4 | first row within the block |
/// | 5 | the problem of a batch |
/// | 6 | how much of K: 0 for all of it, [`SplitForm::CONTRIBUTES`] for a part that goes to the workspace, else so many parts to collect |
/// | 7 | the first of their places in the workspace |
/// | 8 .. 8 + B panels | first column of each B panel in the right factor |
/// | then, for each B panel | first column within the block, then the blocks of the packed block rows |
///
/// A B panel without a block has a column and blocks beyond all others: TMA reads zeros there and writes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkTile {
    panels: u32,
    pack: u32,
}

impl WorkTile {
    /// Bytes from a work tile's start to the number of its problem.
    pub(crate) const PROBLEM: u32 = 4 * 5;

    pub(crate) fn new(tiling: &Tiling) -> Self {
        Self { panels: tiling.panels, pack: tiling.pack }
    }

    /// Words of a work tile.
    pub(crate) fn words(&self) -> u32 {
        (HEADER + self.panels * (2 + self.pack)).next_multiple_of(VECTOR_WORDS)
    }

    pub(crate) fn bytes(&self) -> u32 {
        4 * self.words()
    }

    /// Bytes from a work tile's start to the column of B panel `panel`.
    pub(crate) fn column(&self, panel: u32) -> u32 {
        4 * (HEADER + panel)
    }

    /// Bytes from a work tile's start to what a store of B panel `panel` needs: the column within the block, then the
    /// blocks.
    pub(crate) fn stores(&self, panel: u32) -> u32 {
        4 * (HEADER + self.panels + panel * (1 + self.pack))
    }
}
