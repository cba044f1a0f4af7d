//! What a launch of the kernels for SDDMMs lists, in numbers.

use super::ShapeError;
use crate::{SddmmTiles, TileScheduler};

/// The lists of an SDDMM whose result has its pattern on the GPU. Tiles of one block row each are distributed to the CTAs in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SddmmShape {
    /// The tiles.
    pub tiles: SddmmTiles,
    /// Rows of blocks of the result.
    pub block_rows: u32,
    /// Elements of K.
    pub k: u32,
    /// CTAs that run at the same time.
    pub ctas: u32,
    /// The most blocks that are ever stored.
    pub capacity: u32,
}

impl SddmmShape {
    /// The kernels' numbers, in the order of their parameters.
    pub const NUMBERS: [&'static str; 13] = [
        "block_rows",
        "slices",
        "tile_height",
        "block_height",
        "block_width",
        "groups_a_block",
        "group_columns",
        "column_groups",
        "half_groups",
        "first_k",
        "stages",
        "tile_words",
        "ctas",
    ];

    /// Makes sure that the kernels count as far.
    ///
    /// # Errors
    /// [`ShapeError`] for more words than 32 bits count.
    pub fn checked(self) -> Result<Self, ShapeError> {
        let (what, most) = ("words of an SDDMM's work tiles", 1 << 31);
        match u64::from(self.most_tiles()) * u64::from(self.tiles.tile_words) {
            value if value > most => {
                Err(ShapeError { what, value, most, help: "a smaller capacity, or larger blocks" })
            }
            _ => Ok(self),
        }
    }

    /// Tiles that there can be, and one for each CTA at least.
    pub fn most_tiles(&self) -> u32 {
        let groups = u64::from(self.capacity) * u64::from(self.tiles.groups_per_block);
        let gathered = groups.div_ceil(self.tiles.column_groups.into()) + u64::from(self.block_rows);
        let tiles = gathered.saturating_mul(self.tiles.slices.into()).max(self.ctas.into());
        u32::try_from(tiles).unwrap_or(u32::MAX)
    }

    /// Bytes of `work`.
    pub fn work_bytes(&self) -> usize {
        4 * self.most_tiles() as usize * self.tiles.tile_words as usize
    }

    /// The values of [`SddmmShape::NUMBERS`].
    pub fn numbers(&self) -> [u32; 13] {
        let SddmmTiles { block, rows, slices, groups_per_block, group_columns, column_groups, half, .. } = self.tiles;
        [
            self.block_rows,
            slices,
            rows,
            block.0,
            block.1,
            groups_per_block,
            group_columns,
            column_groups,
            half.unwrap_or(0),
            if self.k == 0 { TileScheduler::OUTSIDE } else { 0 },
            self.k.div_ceil(self.tiles.k_step).max(1),
            self.tiles.tile_words,
            self.ctas,
        ]
    }
}
