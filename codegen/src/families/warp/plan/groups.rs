//! How the blocks of an SDDMM become the columns of a tile.

use serde::Serialize;

use super::block::UNIT;
use super::units::fragment;
use crate::KernelSpec;
use crate::plan::SddmmTiles;

/// Most groups of columns of a tile: a lane of a warp holds one word of a work tile.
const MOST_GROUPS: u32 = (32 - SddmmTiles::HEADER) / WORDS_A_GROUP;
/// Words of a work tile for a group of columns: its place in the factor, that in the block, and the block.
const WORDS_A_GROUP: u32 = 3;
/// Work tiles are whole vectors of 16 bytes.
const VECTOR_WORDS: u32 = 4;

/// The columns of a tile: groups of columns of a stored block each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Groups {
    /// Columns of a group: a block's, or an even part of them.
    pub(crate) columns: u32,
    /// Groups of a tile.
    pub(crate) count: u32,
    /// Groups of a block.
    pub(crate) parts: u32,
}

impl Groups {
    /// Those of blocks of `bk` columns in a tile of up to `bn`.
    pub(crate) fn new(spec: &KernelSpec) -> Self {
        let unit = unit(spec);
        let divides = |columns: &u32| spec.bk.is_multiple_of(*columns);
        let columns = (1..=spec.bn.min(spec.bk) / unit).rev().map(|units| units * unit).find(divides).unwrap_or(unit);
        Self { columns, count: (spec.bn / columns).clamp(1, MOST_GROUPS), parts: spec.bk / columns }
    }

    /// Words of a work tile.
    pub(crate) fn words(&self) -> u32 {
        (SddmmTiles::HEADER + self.count * WORDS_A_GROUP).next_multiple_of(VECTOR_WORDS)
    }

    /// The word with the place in the block of the first group's columns; its block follows, then the other groups'.
    pub(crate) fn stores(&self) -> u32 {
        SddmmTiles::HEADER + self.count
    }
}

/// Columns that a fragment has, or a pair of them.
pub(super) fn unit(spec: &KernelSpec) -> u32 {
    fragment(spec).1.max(UNIT)
}
