//! Step 4: how accumulators become C: one epilogue subtile, 64 dense columns by some rows of C, at a time, through shared
//! memory.

use serde::Serialize;

use super::Tile;
use super::tile::GROUP;
use crate::plan::SparseTimesDense;
use crate::{KernelSpec, Layout};

/// Bytes of a row of staging: one swizzle span.
const SPAN: u32 = 128;
/// Most rows of C in an epilogue subtile.
const MOST_ROWS: u32 = 64;

/// The epilogue subtiles of one consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Store {
    /// Rows of C in a subtile, of 64 dense columns.
    pub(crate) rows: u32,
    /// Swizzle span of the staging buffer; 16 is none.
    pub(crate) span: u32,
    /// TMA box: elements along C's lines, lines.
    pub(crate) store_box: (u32, u32),
    /// Boxes of a subtile.
    pub(crate) stores: u32,
    /// Bytes of a subtile in its staging buffer.
    pub(crate) bytes: u32,
}

impl Store {
    /// Epilogue subtiles of one consumer's part of a tile.
    pub(crate) fn subtiles(&self, tile: &Tile) -> u32 {
        tile.groups * tile.tile_rows() / self.rows
    }
}

pub(crate) fn plan(spec: &KernelSpec, view: &SparseTimesDense, tile: &Tile) -> Store {
    let bytes = spec.out.bytes();
    let tile_rows = tile.tile_rows();
    let divides = |rows: &u32| tile_rows.is_multiple_of(*rows);
    match view.out {
        Layout::RowMajor => {
            let rows = (1..=MOST_ROWS / 8).rev().map(|n| 8 * n).find(divides).unwrap_or(8);
            let span = (GROUP * bytes).min(SPAN);
            let stores = GROUP * bytes / span;
            Store { rows, span, store_box: (span / bytes, rows), stores, bytes: GROUP * bytes * rows }
        }
        Layout::ColMajor => {
            let rows = [64, 32, 16, 8].into_iter().filter(|rows| rows * bytes <= SPAN).find(divides).unwrap_or(8);
            let span = rows * bytes;
            Store { rows, span, store_box: (rows, GROUP), stores: 1, bytes: GROUP * span }
        }
    }
}
