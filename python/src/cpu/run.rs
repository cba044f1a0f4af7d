//! Products in tiles of their result, in parallel: sums, the epilogue, and what rows collect for a second result.

use rayon::prelude::*;

use super::fused::{Fused, Place};
use super::tile::{DEPTH, WIDTH, multiply};
use crate::array::{Number, Strided};

/// A product as tiles of its result, of [`WIDTH`] columns each.
pub(crate) trait Tiles: Sync {
    /// All tiles.
    fn count(&self) -> usize;
    /// The most rows of a tile, and the most elements of K that are multiplied at once.
    fn most(&self) -> (usize, usize);
    /// Where a tile begins, and its rows.
    fn tile(&self, number: usize) -> (Place, usize);
    /// What is multiplied and summed for a tile.
    fn factors(&self, number: usize) -> impl Iterator<Item = Factors>;
}

/// The windows of two matrices whose product is added to a tile: their corners, and the elements of K.
pub(crate) struct Factors {
    pub(crate) a: (Strided, (usize, usize)),
    pub(crate) b: (Strided, (usize, usize)),
    pub(crate) depth: usize,
}

/// Where a product goes, and by way of what.
pub(crate) struct Target<'a> {
    /// The matrix, or its stored blocks, one below another.
    pub(crate) out: Strided,
    /// Rows and columns of the matrix; what extends beyond them in stored blocks is zero.
    pub(crate) shape: (usize, usize),
    pub(crate) fused: Option<&'a Fused>,
    /// The second result, one f32 for every row.
    pub(crate) second: Option<Strided>,
}

impl Target<'_> {
    /// Computes all tiles, summed in `S`.
    ///
    /// # Safety
    /// Every matrix must be what it says and alive, the shapes those of a product, and nothing else may use the result and the
    /// second one.
    pub(crate) unsafe fn fill<S: Number>(&self, tiles: &impl Tiles) {
        let (height, most) = tiles.most();
        let depth = DEPTH.min(most);
        let zeros = |elements: usize| vec![S::ZERO; elements];
        let collected: Vec<Vec<f64>> = (0..tiles.count())
            .into_par_iter()
            .map_init(
                || (zeros(height * depth), zeros(depth * WIDTH), zeros(height * WIDTH)),
                |(a, b, sums), number| {
                    let (place, lines) = tiles.tile(number);
                    let sums = &mut sums[..lines * WIDTH];
                    sums.fill(S::ZERO);
                    for Factors { a: (left, (row, at)), b: (right, (from, col)), depth } in tiles.factors(number) {
                        for first in (0..depth).step_by(DEPTH) {
                            let depth = DEPTH.min(depth - first);
                            let (a, b) = (&mut a[..lines * depth], &mut b[..depth * WIDTH]);
                            // SAFETY: as the caller vouches.
                            unsafe {
                                left.pack((row, at + first), (lines, depth), depth, a);
                                right.pack((from + first, col), (depth, WIDTH), WIDTH, b);
                            }
                            multiply(depth, a, b, sums);
                        }
                    }
                    // SAFETY: as the caller vouches; no other tile has these elements.
                    unsafe { self.store(place, sums) }
                },
            )
            .collect();
        // SAFETY: as the caller vouches.
        unsafe { self.collect(&collected, |number| tiles.tile(number).0.matrix.0) };
    }

    /// Writes a tile, and returns what its rows collect for the second result.
    unsafe fn store<S: Number>(&self, at: Place, sums: &[S]) -> Vec<f64> {
        let cols = WIDTH.min(self.out.cols.saturating_sub(at.stored.1));
        // SAFETY: the inputs have an element for every place of the result.
        let evaluate = self.fused.map(|fused| unsafe { fused.evaluator() });
        let reduction = self.fused.and_then(Fused::reduction);
        let mut collected = reduction.map_or(Vec::new(), |by| vec![f64::from(by.start()); sums.len() / WIDTH]);
        for (r, line) in sums.chunks_exact(WIDTH).enumerate() {
            for (c, sum) in line[..cols].iter().enumerate() {
                let place =
                    Place { matrix: (at.matrix.0 + r, at.matrix.1 + c), stored: (at.stored.0 + r, at.stored.1 + c) };
                let value = match &evaluate {
                    _ if place.matrix.0 >= self.shape.0 || place.matrix.1 >= self.shape.1 => 0.0,
                    None => sum.to_f64(),
                    Some(evaluate) => {
                        let (value, second) = evaluate(sum.to_f64(), place);
                        if let (Some(reduction), Some(second)) = (reduction, second) {
                            collected[r] = reduction.collect(collected[r], second);
                        }
                        value
                    }
                };
                // SAFETY: the element is in the result, and only this tile has it.
                unsafe { self.out.set(place.stored.0, place.stored.1, value) };
            }
        }
        collected
    }

    /// The second result, of what the rows of tiles have collected; a tile begins at the row that `row_of` says.
    unsafe fn collect(&self, collected: &[Vec<f64>], row_of: impl Fn(usize) -> usize) {
        let reduction = self.fused.and_then(Fused::reduction);
        let (Some(reduction), Some(second)) = (reduction, self.second) else { return };
        let mut values = vec![f64::from(reduction.start()); self.shape.0];
        for (number, parts) in collected.iter().enumerate() {
            let inside = values.get_mut(row_of(number)..).unwrap_or_default();
            inside.iter_mut().zip(parts).for_each(|(value, part)| *value = reduction.collect(*value, *part));
        }
        for (row, value) in values.into_iter().enumerate() {
            // SAFETY: there is a place for every row.
            unsafe { second.set(row, 0, value) };
        }
    }
}
