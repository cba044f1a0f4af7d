//! Step 4: how accumulators become stored blocks: units of 64 rows through shared memory and TMA stores.
//!
//! A unit is columns of one B panel. Where 128 bytes divide the row of a panel it is one swizzle span wide; otherwise it
//! has rows as long as it is wide, unswizzled. A store writes the rows of one block: the tensor map of C has the block's
//! rows as a dimension of its own, so that TMA clips what a tile has beyond them, and a block number beyond the last
//! writes nothing.

use super::tiling::{Tiling, WG_M};
use crate::KernelSpec;

/// Bytes of the swizzled row.
const SPAN: u32 = 128;
/// Longest unswizzled row that is not divided if it can be.
const LONG: u32 = 256;
/// Subtiles that the shortest tiles worth caring about can hide.
const MOST_SUBTILES: u32 = 4;

/// The epilogue of one consumer warpgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epilogue {
    /// The accumulators are packed to 16 bits when a tile ends and stored while the next tile's first WGMMAs run.
    pub(crate) overlapped: bool,
    /// A full operand comes through the staging buffer before C does.
    pub(crate) has_tile: bool,
    /// Columns of a unit.
    pub(crate) unit: u32,
    /// Units of a B panel.
    pub(crate) units_per_panel: u32,
    /// Bytes of a unit's row.
    pub(crate) line: u32,
    /// Swizzle span of staging in bytes; 0 for none.
    pub(crate) swizzle: u32,
    /// Rows of a store.
    pub(crate) box_rows: u32,
    /// Units of a consumer's tile.
    pub(crate) units: u32,
    /// Units that the staging buffer holds at once.
    pub(crate) staged: u32,
}

impl Epilogue {
    pub(crate) fn new(spec: &KernelSpec, tiling: &Tiling, has_tile: bool) -> Self {
        let bytes = spec.out.bytes();
        let row = tiling.panel_columns * bytes;
        let units_per_panel = if row.is_multiple_of(SPAN) {
            row / SPAN
        } else {
            let divides = |n: &u32| row / n <= LONG && tiling.panel_columns.is_multiple_of(8 * n);
            [1, 2, 4].into_iter().find(divides).unwrap_or(1)
        };
        let line = row / units_per_panel;
        let units = tiling.wg_panels() * units_per_panel;
        Self {
            has_tile,
            overlapped: bytes == 2
                && !has_tile
                && tiling.roles.holds_with_packed(tiling.accumulators(), tiling.accumulators() / 2),
            unit: tiling.panel_columns / units_per_panel,
            units_per_panel,
            line,
            swizzle: if line == SPAN { SPAN } else { 0 },
            box_rows: spec.bm.min(WG_M),
            units,
            staged: units,
        }
    }

    /// Bytes of a unit.
    pub(crate) fn unit_bytes(&self) -> u32 {
        WG_M * self.line
    }

    /// Staging bytes of one consumer.
    pub(crate) fn staging_bytes(&self) -> u32 {
        self.staged * self.unit_bytes()
    }

    /// Rounds of filling the staging buffer that a tile takes.
    pub(crate) fn subtiles(&self) -> u32 {
        self.units.div_ceil(self.staged)
    }

    /// Staging sizes to try, largest first: all units, then halves, in no more than four subtiles.
    pub(crate) fn sizes(&self) -> Vec<u32> {
        let least = self.units.div_ceil(MOST_SUBTILES);
        let halves =
            std::iter::successors(Some(self.units), |size| (*size > least).then(|| size.div_ceil(2).max(least)));
        halves.collect()
    }
}
