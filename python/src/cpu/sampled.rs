//! The stored blocks of a dense product (SDDMM) on the CPU, in parallel over blocks.

use bsr::Structure;
use rayon::prelude::*;

use super::fused::{Fused, Place};
use super::tile::{DEPTH, LINES, WIDTH, multiply};
use crate::array::{Number, Strided};

/// The operands of C = A B where C is stored in blocks.
pub(crate) struct Sampled<'a> {
    pub(crate) structure: &'a Structure,
    pub(crate) a: Strided,
    pub(crate) b: Strided,
    /// The values of C's blocks, one below another: `nnzb * bm` rows of `bk`.
    pub(crate) out: Strided,
    pub(crate) fused: Option<&'a Fused>,
    /// The second result, one f32 for every row.
    pub(crate) second: Option<Strided>,
}

impl Sampled<'_> {
    /// Computes the stored blocks, summed in `S`; what extends beyond the edge is zero.
    ///
    /// # Safety
    /// Every matrix must be what it says and alive, the shapes those of a product, and nothing else may use C and the
    /// second result.
    pub(crate) unsafe fn run<S: Number>(&self) {
        let (bm, bk) = self.structure.block();
        let (panels, parts) = (bk.div_ceil(WIDTH), bm.div_ceil(LINES));
        let (most_lines, most_depth) = (LINES.min(bm), DEPTH.min(self.a.cols));
        let rows: Vec<usize> = (0..self.structure.block_rows())
            .flat_map(|row| std::iter::repeat_n(row, self.structure.blocks_of(row).len()))
            .collect();
        let collected: Vec<Vec<f64>> = (0..self.structure.nnzb() * parts * panels)
            .into_par_iter()
            .map_init(
                || {
                    let zeros = |elements: usize| vec![S::ZERO; elements];
                    (zeros(most_lines * most_depth), zeros(most_depth * WIDTH), zeros(most_lines * WIDTH))
                },
                |(a, b, sums), tile| {
                    let (block, first_line, panel) =
                        (tile / panels / parts, tile / panels % parts * LINES, tile % panels);
                    let lines = LINES.min(bm - first_line);
                    let (row, col) = (rows[block] * bm + first_line, self.structure.col_idx()[block] as usize * bk);
                    let sums = &mut sums[..lines * WIDTH];
                    sums.fill(S::ZERO);
                    for first in (0..self.a.cols).step_by(DEPTH) {
                        let depth = DEPTH.min(self.a.cols - first);
                        let (a, b) = (&mut a[..lines * depth], &mut b[..depth * WIDTH]);
                        // SAFETY: as the caller vouches.
                        unsafe {
                            self.a.pack((row, first), (lines, depth), depth, a);
                            self.b.pack((first, col + panel * WIDTH), (depth, WIDTH), WIDTH, b);
                        }
                        multiply(depth, a, b, sums);
                    }
                    // SAFETY: as the caller vouches; no other tile has these elements.
                    unsafe { self.store(block * bm + first_line, (row, col), panel * WIDTH, sums) }
                },
            )
            .collect();
        // SAFETY: as the caller vouches.
        unsafe { self.collect(&collected, |tile| rows[tile / panels / parts] * bm + tile / panels % parts * LINES) };
    }

    unsafe fn store<S: Number>(&self, first: usize, (row, col): (usize, usize), panel: usize, sums: &[S]) -> Vec<f64> {
        let bk = self.structure.block().1;
        // SAFETY: the inputs are of C's shape.
        let evaluate = self.fused.map(|fused| unsafe { fused.evaluator() });
        let reduction = self.fused.and_then(Fused::reduction);
        let mut collected =
            reduction.map_or(Vec::new(), |reduction| vec![f64::from(reduction.start()); sums.len() / WIDTH]);
        for (r, line) in sums.chunks_exact(WIDTH).enumerate() {
            for (c, sum) in line[..WIDTH.min(bk - panel)].iter().enumerate() {
                let stored = (first + r, panel + c);
                let matrix = (row + r, col + panel + c);
                let inside = matrix.0 < self.structure.rows() && matrix.1 < self.structure.cols();
                let value = match &evaluate {
                    _ if !inside => 0.0,
                    None => sum.to_f64(),
                    Some(evaluate) => {
                        let (value, second) = evaluate(sum.to_f64(), Place { matrix, stored });
                        if let (Some(reduction), Some(second)) = (reduction, second) {
                            collected[r] = reduction.collect(collected[r], second);
                        }
                        value
                    }
                };
                // SAFETY: the element is in C, and only this tile has it.
                unsafe { self.out.set(stored.0, stored.1, value) };
            }
        }
        collected
    }

    unsafe fn collect(&self, collected: &[Vec<f64>], row_of: impl Fn(usize) -> usize) {
        let reduction = self.fused.and_then(Fused::reduction);
        let (Some(reduction), Some(second)) = (reduction, self.second) else { return };
        let mut values = vec![f64::from(reduction.start()); self.structure.rows()];
        for (tile, parts) in collected.iter().enumerate() {
            let inside = values.get_mut(row_of(tile)..).unwrap_or_default();
            inside.iter_mut().zip(parts).for_each(|(value, part)| *value = reduction.collect(*value, *part));
        }
        for (row, value) in values.into_iter().enumerate() {
            // SAFETY: there is a place for every row of C.
            unsafe { second.set(row, 0, value) };
        }
    }
}
