//! Sparse times dense on the CPU, in parallel over tiles of the result.

use bsr::Structure;
use rayon::prelude::*;

use super::fused::{Fused, Place};
use super::tile::{DEPTH, LINES, WIDTH, multiply};
use crate::array::{Kind, Number, Strided};

/// The operands of C = A B, with A or its transpose in blocks.
pub(crate) struct Product<'a> {
    pub(crate) structure: &'a Structure,
    /// The index of the transposed matrix, where that is the factor.
    pub(crate) transpose: bool,
    pub(crate) values: (usize, Kind),
    pub(crate) dense: Strided,
    pub(crate) out: Strided,
    pub(crate) fused: Option<&'a Fused>,
    /// The second result, one f32 for every row.
    pub(crate) second: Option<Strided>,
}

/// How C is cut into tiles: a part of a block row by some columns.
struct Grid {
    /// Rows and columns of a block of the factor.
    height: usize,
    depth: usize,
    /// Rows of a tile, tiles of a block row, tiles beside each other, all tiles.
    lines: usize,
    parts: usize,
    panels: usize,
    tiles: usize,
}

impl Grid {
    /// The block row of a tile, the first of its rows in there, and its number in its row of tiles.
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let (row, panel) = (tile / self.panels, tile % self.panels);
        (row / self.parts, row % self.parts * self.lines, panel)
    }
}

/// The blocks of a row of tiles: their places along K and their numbers.
struct BlockRows<'a> {
    row_ptr: &'a [i32],
    columns: &'a [i32],
    blocks: Option<&'a [i32]>,
}

impl BlockRows<'_> {
    fn of(&self, row: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let range = self.row_ptr[row] as usize..self.row_ptr[row + 1] as usize;
        range.map(|at| (self.columns[at] as usize, self.blocks.map_or(at, |blocks| blocks[at] as usize)))
    }
}

impl Product<'_> {
    /// Computes C, summed in `S`.
    ///
    /// # Safety
    /// Every matrix must be what it says and alive, A's values those of the structure, the shapes those of a product,
    /// and nothing else may use C and the second result.
    pub(crate) unsafe fn run<S: Number>(&self) {
        let (rows, grid) = (self.block_rows(), self.grid());
        let (height, depth) = (grid.lines.min(self.out.rows), DEPTH.min(grid.depth).min(self.dense.rows));
        let collected: Vec<Vec<f64>> = (0..grid.tiles)
            .into_par_iter()
            .map_init(
                || (vec![S::ZERO; height * depth], vec![S::ZERO; depth * WIDTH], vec![S::ZERO; height * WIDTH]),
                |(a, b, sums), tile| {
                    let (block_row, first_line, panel) = grid.place(tile);
                    let row = block_row * grid.height + first_line;
                    let lines = grid.lines.min(grid.height - first_line).min(self.out.rows - row);
                    let sums = &mut sums[..lines * WIDTH];
                    sums.fill(S::ZERO);
                    for (column, block) in rows.of(block_row) {
                        let inside = grid.depth.min(self.dense.rows - column * grid.depth);
                        for first in (0..inside).step_by(DEPTH) {
                            let depth = DEPTH.min(inside - first);
                            let (a, b) = (&mut a[..lines * depth], &mut b[..depth * WIDTH]);
                            // SAFETY: as the caller vouches.
                            unsafe {
                                self.block(block).pack((first_line, first), (lines, depth), depth, a);
                                let corner = (column * grid.depth + first, panel * WIDTH);
                                self.dense.pack(corner, (depth, WIDTH), WIDTH, b);
                            }
                            multiply(depth, a, b, sums);
                        }
                    }
                    // SAFETY: as the caller vouches; no other tile has these elements.
                    unsafe { self.store((row, panel * WIDTH), lines, sums) }
                },
            )
            .collect();
        // SAFETY: as the caller vouches.
        unsafe { self.collect(&collected, &grid) };
    }

    fn grid(&self) -> Grid {
        let (stored_rows, stored_cols) = self.structure.block();
        let (height, depth) = if self.transpose { (stored_cols, stored_rows) } else { (stored_rows, stored_cols) };
        let (lines, panels) = (height.min(LINES), self.out.cols.div_ceil(WIDTH).max(1));
        let parts = height.div_ceil(lines);
        let rows = self.out.rows / height * parts + (self.out.rows % height).div_ceil(lines);
        Grid { height, depth, lines, parts, panels, tiles: rows * panels }
    }

    fn block_rows(&self) -> BlockRows<'_> {
        match self.transpose {
            false => BlockRows { row_ptr: self.structure.row_ptr(), columns: self.structure.col_idx(), blocks: None },
            true => {
                let index = self.structure.transposed();
                BlockRows { row_ptr: index.row_ptr(), columns: index.col_idx(), blocks: Some(index.block_idx()) }
            }
        }
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

    /// Writes a tile, and returns what its rows collect for the second result.
    unsafe fn store<S: Number>(&self, (row, col): (usize, usize), rows: usize, sums: &[S]) -> Vec<f64> {
        let cols = WIDTH.min(self.out.cols.saturating_sub(col));
        let Some(fused) = self.fused else {
            for (r, line) in sums.chunks_exact(WIDTH).enumerate() {
                for (c, sum) in line[..cols].iter().enumerate() {
                    // SAFETY: the element is in C, and only this tile has it.
                    unsafe { self.out.set(row + r, col + c, sum.to_f64()) };
                }
            }
            return Vec::new();
        };
        // SAFETY: the inputs are of C's shape.
        let evaluate = unsafe { fused.evaluator() };
        let reduction = fused.reduction();
        let mut collected = reduction.map_or(Vec::new(), |reduction| vec![f64::from(reduction.start()); rows]);
        for (r, line) in sums.chunks_exact(WIDTH).enumerate() {
            for (c, sum) in line[..cols].iter().enumerate() {
                let matrix = (row + r, col + c);
                let (value, second) = evaluate(sum.to_f64(), Place { matrix, stored: matrix });
                // SAFETY: the element is in C, and only this tile has it.
                unsafe { self.out.set(matrix.0, matrix.1, value) };
                if let (Some(reduction), Some(second)) = (reduction, second) {
                    collected[r] = reduction.collect(collected[r], second);
                }
            }
        }
        collected
    }

    /// The second result, of what the tiles of each row have collected.
    unsafe fn collect(&self, collected: &[Vec<f64>], grid: &Grid) {
        let reduction = self.fused.and_then(Fused::reduction);
        let (Some(reduction), Some(second)) = (reduction, self.second) else { return };
        for (number, tiles) in collected.chunks(grid.panels).enumerate() {
            let (block_row, first_line, _) = grid.place(number * grid.panels);
            for r in 0..tiles[0].len() {
                let parts = tiles.iter().map(|tile| tile[r]);
                let value = parts.fold(f64::from(reduction.start()), |so_far, part| reduction.collect(so_far, part));
                // SAFETY: there is a place for every row of C.
                unsafe { second.set(block_row * grid.height + first_line + r, 0, value) };
            }
        }
    }
}
