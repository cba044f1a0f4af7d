//! The stored blocks of a dense product (SDDMM) on the CPU.

use bsr::Structure;

use super::fused::Place;
use super::run::{Factors, Tiles};
use super::tile::{LINES, WIDTH};
use crate::array::Strided;

/// The operands of C = A B where C is stored in blocks, each of which is cut into tiles.
pub(crate) struct Sddmm<'a> {
    structure: &'a Structure,
    a: Strided,
    b: Strided,
    /// The block row of each block.
    rows: Vec<usize>,
    /// Tiles of a block below and beside each other.
    parts: usize,
    panels: usize,
}

impl<'a> Sddmm<'a> {
    pub(crate) fn new(structure: &'a Structure, a: Strided, b: Strided) -> Self {
        let (bm, bk) = structure.block();
        let of_row = |row: usize| std::iter::repeat_n(row, structure.blocks_of(row).len());
        let rows = (0..structure.block_rows()).flat_map(of_row).collect();
        Self { structure, a, b, rows, parts: bm.div_ceil(LINES), panels: bk.div_ceil(WIDTH) }
    }
}

impl Tiles for Sddmm<'_> {
    fn count(&self) -> usize {
        self.structure.nnzb() * self.parts * self.panels
    }

    fn most(&self) -> (usize, usize) {
        (LINES.min(self.structure.block().0), self.a.cols)
    }

    fn tile(&self, number: usize) -> (Place, usize) {
        let (bm, bk) = self.structure.block();
        let (part, panel) = (number / self.panels, number % self.panels);
        let (block, first_line, first_col) = (part / self.parts, part % self.parts * LINES, panel * WIDTH);
        let column = self.structure.col_idx()[block] as usize;
        let matrix = (self.rows[block] * bm + first_line, column * bk + first_col);
        (Place { matrix, stored: (block * bm + first_line, first_col) }, LINES.min(bm - first_line))
    }

    fn factors(&self, number: usize) -> impl Iterator<Item = Factors> {
        let (row, col) = self.tile(number).0.matrix;
        std::iter::once(Factors { a: (self.a, (row, 0)), b: (self.b, (0, col)), depth: self.a.cols })
    }
}
