//! Sparse times dense on the CPU.

use bsr::Structure;
use bsr_runtime::Transposed;

use super::fused::Place;
use super::run::{Factors, Tiles};
use super::tile::{LINES, WIDTH};
use crate::array::{Kind, Strided};

/// The operands of C = A B, with A or its transpose in blocks. C is cut into parts of block rows by some columns.
pub(crate) struct Product<'a> {
    structure: &'a Structure,
    /// Whether the factor is the transposed matrix.
    transpose: bool,
    values: (usize, Kind),
    dense: Strided,
    /// Rows of C.
    rows: usize,
    /// Rows and columns of a block of the factor.
    block: (usize, usize),
    /// Rows of a tile, tiles of a block row, tiles beside each other.
    lines: usize,
    parts: usize,
    panels: usize,
    /// Of each block row of the factor where its blocks begin, of each block its place along K, and its number in the matrix.
    row_ptr: &'a [i64],
    columns: &'a [i32],
    blocks: Option<&'a [i32]>,
}

impl<'a> Product<'a> {
    /// That of a matrix, or with its index by block column of the transposed one.
    pub(crate) fn new(
        structure: &'a Structure,
        index: Option<&'a Transposed>,
        values: (usize, Kind),
        dense: Strided,
    ) -> Self {
        let ((bm, bk), transpose) = (structure.block(), index.is_some());
        let (block, rows) = if transpose { ((bk, bm), structure.cols()) } else { ((bm, bk), structure.rows()) };
        let lines = block.0.min(LINES);
        let (parts, panels) = (block.0.div_ceil(lines), dense.cols.div_ceil(WIDTH).max(1));
        let (row_ptr, columns, blocks) = match index {
            Some(index) => (index.row_ptr(), index.col_idx(), Some(index.block_idx())),
            None => (structure.row_ptr(), structure.col_idx(), None),
        };
        Self { structure, transpose, values, dense, rows, block, lines, parts, panels, row_ptr, columns, blocks }
    }

    /// The block row of a tile, the first of its rows in there, and its number in its row of tiles.
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let (row, panel) = (tile / self.panels, tile % self.panels);
        (row / self.parts, row % self.parts * self.lines, panel)
    }

    /// A block as the factor has it.
    fn block(&self, block: usize) -> Strided {
        let (bm, bk) = self.structure.block();
        let (address, kind) = self.values;
        let stored = Strided::contiguous(address + block * bm * bk * kind.bytes(), kind, bm, bk);
        let Strided { row_stride, col_stride, .. } = stored;
        match self.transpose {
            false => stored,
            true => Strided { rows: bk, cols: bm, row_stride: col_stride, col_stride: row_stride, ..stored },
        }
    }
}

impl Tiles for Product<'_> {
    fn count(&self) -> usize {
        let height = self.block.0;
        (self.rows / height * self.parts + (self.rows % height).div_ceil(self.lines)) * self.panels
    }

    fn most(&self) -> (usize, usize) {
        (self.lines.min(self.rows), self.block.1.min(self.dense.rows))
    }

    fn tile(&self, number: usize) -> (Place, usize) {
        let (block_row, first_line, panel) = self.place(number);
        let row = block_row * self.block.0 + first_line;
        let place = (row, panel * WIDTH);
        let lines = self.lines.min(self.block.0 - first_line).min(self.rows - row);
        (Place { matrix: place, stored: place }, lines)
    }

    fn factors(&self, number: usize) -> impl Iterator<Item = Factors> {
        let ((block_row, first_line, panel), depth) = (self.place(number), self.block.1);
        let range = self.row_ptr[block_row] as usize..self.row_ptr[block_row + 1] as usize;
        range.map(move |at| {
            let first = self.columns[at] as usize * depth;
            let block = self.block(self.blocks.map_or(at, |blocks| blocks[at] as usize));
            let b = (self.dense, (first, panel * WIDTH));
            Factors { a: (block, (first_line, 0)), b, depth: depth.min(self.dense.rows - first) }
        })
    }
}
