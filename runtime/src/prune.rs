//! Block pruning: which blocks of a matrix to keep, by their Frobenius norm.

use bsr_codegen::Refusal;
use std::cmp::Ordering;

use crate::Structure;
use crate::read::{Cursor, Sparse, from_places};

/// How many blocks stay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keep {
    /// This fraction of all blocks of the matrix, wherever they are: above 0, at most 1. The number is rounded, and at
    /// least one.
    Fraction(f64),
    /// So many blocks in each block row, at least one.
    PerRow(usize),
}

/// The blocks that stay.
#[derive(Clone, Debug, PartialEq)]
pub struct Pruned {
    structure: Structure,
    norm: f64,
}

impl Pruned {
    /// Where the blocks are; [`Sparse::to_bsr_within`] takes their values.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Where the blocks are, by itself.
    pub fn into_structure(self) -> Structure {
        self.structure
    }

    /// The Frobenius norm of what stays as a fraction of that of the matrix; 1 for a matrix of zeros.
    pub fn norm(&self) -> f64 {
        self.norm
    }
}

/// The blocks of size `block` with the largest Frobenius norms. Of equal ones the first by row and column stays; a block
/// of zeros never does, so there may be fewer than asked for.
///
/// # Errors
/// When `keep` is no number of blocks, a value is NaN or infinite, so that norms have no order, or the block has a zero
/// side.
///
/// # Example
/// ```
/// use bsr_runtime::prune::{Keep, prune};
/// use bsr_runtime::read::Sparse;
/// use bsr_runtime::{Dense, Layout};
///
/// let weights = Dense::from_fn(4, 4, Layout::RowMajor, |row, col| (row * 4 + col) as f32);
/// let sparse = Sparse::from_dense(&weights)?;
/// let kept = prune(&sparse, (2, 2), Keep::Fraction(0.5))?;
/// assert_eq!((kept.structure().row_ptr(), kept.structure().col_idx()), (&[0, 0, 2][..], &[0, 1][..]));
/// assert!((kept.norm() - (1100.0f64 / 1240.0).sqrt()).abs() < 1e-12);
/// let (matrix, _) = sparse.to_bsr_within::<f32>(kept.structure())?;
/// assert_eq!(matrix.nnzb(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn prune(sparse: &Sparse, block: (usize, usize), keep: Keep) -> Result<Pruned, Refusal> {
    match keep {
        Keep::Fraction(fraction) if !(fraction > 0.0 && fraction <= 1.0) => {
            return Err(Refusal::new(format!("{fraction} of the blocks"))
                .help("give a number above 0 and at most 1, for instance 0.25"));
        }
        Keep::PerRow(0) => {
            return Err(Refusal::new("0 blocks in each block row leave nothing").help("keep at least 1"));
        }
        _ => {}
    }
    let all = sparse.structure(block)?;
    let squares = squares(sparse, &all)?;
    let larger = |x: &usize, y: &usize| match squares[*y].total_cmp(&squares[*x]) {
        Ordering::Equal => x.cmp(y),
        order => order,
    };
    let mut kept: Vec<usize> = match keep {
        Keep::Fraction(fraction) => {
            let blocks = all.block_rows() as f64 * all.block_cols() as f64;
            largest((0..all.nnzb()).collect(), (blocks * fraction).round().max(1.0) as usize, larger)
        }
        Keep::PerRow(blocks) => {
            (0..all.block_rows()).flat_map(|row| largest(all.blocks_of(row).collect(), blocks, larger)).collect()
        }
    };
    kept.retain(|&block| squares[block] > 0.0);
    kept.sort_unstable();

    let sum = |of: &mut dyn Iterator<Item = f64>| -> f64 { of.sum() };
    let (part, whole) = (sum(&mut kept.iter().map(|&block| squares[block])), sum(&mut squares.iter().copied()));
    let norm = if whole == 0.0 { 1.0 } else { (part / whole).sqrt() };
    let row_of: Vec<u32> = (0u32..).zip(all.row_lengths()).flat_map(|(row, blocks)| vec![row; blocks]).collect();
    // Column indices are never negative.
    let places: Vec<(u32, u32)> = kept.iter().map(|&block| (row_of[block], all.col_idx()[block] as u32)).collect();
    let structure = from_places(&Structure::empty(sparse.rows(), sparse.cols(), block)?, &places)?;
    Ok(Pruned { structure, norm })
}

/// The first `count` of `blocks` in this order, themselves in any.
fn largest(mut blocks: Vec<usize>, count: usize, order: impl Fn(&usize, &usize) -> Ordering) -> Vec<usize> {
    if count < blocks.len() {
        blocks.select_nth_unstable_by(count, order);
        blocks.truncate(count);
    }
    blocks
}

/// The squared Frobenius norm of each block, of the matrix scaled to a largest magnitude of 1, so that no square is lost
/// to the range of `f64`.
fn squares(sparse: &Sparse, structure: &Structure) -> Result<Vec<f64>, Refusal> {
    let (bm, bk) = structure.block();
    let scale = Some(sparse.largest()).filter(|&largest| largest > 0.0).unwrap_or(1.0);
    let mut squares = vec![0.0; structure.nnzb()];
    let (mut cursor, mut refused) = (Cursor::new(structure), None);
    sparse.for_each(|row, col, value| {
        if !value.is_finite() {
            refused.get_or_insert((row, col, value));
        }
        if let Some(block) = cursor.find(row / bm, col / bk) {
            squares[block] += (value / scale) * (value / scale);
        }
    });
    match refused {
        Some((row, col, value)) => {
            Err(Refusal::new(format!("{value} at row {row}, column {col}, so that norms have no order"))
                .help("replace it, or do not prune"))
        }
        None => Ok(squares),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::{Bsr, Dense, Layout};

    /// The squared norms of all blocks by brute force, in order.
    fn norms(dense: &Dense<f32>, (bm, bk): (usize, usize)) -> Vec<Vec<f64>> {
        let square = |row: usize, col: usize| {
            let cells = (0..bm).flat_map(|r| (0..bk).map(move |c| (row * bm + r, col * bk + c)));
            cells.filter_map(|(r, c)| dense.get(r, c)).map(|v| f64::from(v).powi(2)).sum::<f64>()
        };
        (0..dense.rows().div_ceil(bm))
            .map(|row| (0..dense.cols().div_ceil(bk)).map(|col| square(row, col)).collect())
            .collect()
    }

    proptest! {
        #[test]
        fn no_dropped_block_outweighs_a_kept_one(
            rows in 1usize..40, cols in 1usize..40, block in (1usize..9, 1usize..9), seed in any::<u64>(),
            fraction in 0.01f64..1.0, count in 1usize..6,
        ) {
            let dense = Dense::<f32>::normal(rows, cols, Layout::RowMajor, seed);
            let sparse = Sparse::from_dense(&dense).unwrap();
            let norms = norms(&dense, block);
            let (all_rows, all_cols) = (norms.len(), norms[0].len());
            for keep in [Keep::Fraction(fraction), Keep::PerRow(count)] {
                let pruned = prune(&sparse, block, keep).unwrap();
                let structure = pruned.structure();
                let kept = |row: usize, col: usize| {
                    structure.col_idx()[structure.blocks_of(row)].contains(&(col as i32))
                };
                match keep {
                    Keep::Fraction(f) => {
                        let asked = ((all_rows * all_cols) as f64 * f).round().max(1.0) as usize;
                        prop_assert_eq!(structure.nnzb(), asked);
                    }
                    Keep::PerRow(n) => prop_assert!(structure.row_lengths().all(|l| l == n.min(all_cols))),
                }
                let places = || (0..all_rows).flat_map(|r| (0..all_cols).map(move |c| (r, c)));
                for row in 0..all_rows {
                    let same = |&(r, _): &(usize, usize)| matches!(keep, Keep::Fraction(_)) || r == row;
                    let least = places().filter(same).filter(|&(r, c)| kept(r, c)).map(|(r, c)| norms[r][c]);
                    let most = places().filter(same).filter(|&(r, c)| !kept(r, c)).map(|(r, c)| norms[r][c]);
                    prop_assert!(most.fold(0.0, f64::max) <= least.fold(f64::INFINITY, f64::min) * (1.0 + 1e-12));
                }
                // What stays is the original; the norm is what the values say.
                let (bsr, fill_in): (Bsr<f32>, _) = sparse.to_bsr_within(structure).unwrap();
                let square = |values: &[f32]| values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
                let expected = (square(bsr.values()) / norms.iter().flatten().sum::<f64>()).sqrt();
                prop_assert!((pruned.norm() - expected).abs() < 1e-9);
                prop_assert_eq!(fill_in.true_nnz(), bsr.values().iter().filter(|v| **v != 0.0).count());
                let back = bsr.to_dense(Layout::RowMajor);
                for (r, c) in (0..rows).flat_map(|r| (0..cols).map(move |c| (r, c))) {
                    let want = if kept(r / block.0, c / block.1) { dense.get(r, c) } else { Some(0.0) };
                    prop_assert_eq!(back.get(r, c), want);
                }
            }
        }
    }

    #[test]
    fn ties_zeros_and_huge_values_are_decided() {
        let ones = Sparse::from_dense(&Dense::from_fn(2, 6, Layout::RowMajor, |_, _| 1.0f32)).unwrap();
        let first = prune(&ones, (1, 2), Keep::Fraction(0.5)).unwrap();
        assert_eq!((first.structure().row_ptr(), first.structure().col_idx()), (&[0, 3, 3][..], &[0, 1, 2][..]));
        // The block of listed zeros is not kept, although there is room for it.
        let zeros = Sparse::from_triplets(2, 4, vec![(0, 0, 0.0), (1, 3, 2.0)]).unwrap();
        assert_eq!(prune(&zeros, (1, 2), Keep::PerRow(2)).unwrap().structure().col_idx(), [1]);
        let nothing = prune(&Sparse::from_triplets(2, 4, vec![]).unwrap(), (1, 2), Keep::PerRow(2)).unwrap();
        assert_eq!((nothing.structure().nnzb(), nothing.norm()), (0, 1.0));
        // Squares of these are infinite, and of these zero.
        for largest in [1e200, 1e-200] {
            let sparse = Sparse::from_triplets(1, 4, vec![(0, 0, largest / 2.0), (0, 3, largest)]).unwrap();
            let pruned = prune(&sparse, (1, 2), Keep::PerRow(1)).unwrap();
            assert_eq!(pruned.structure().col_idx(), [1]);
            assert!((pruned.norm() - (0.8f64).sqrt()).abs() < 1e-12);
        }
    }

    #[test]
    fn what_has_no_order_or_keeps_nothing_is_refused() {
        let sparse = Sparse::from_triplets(2, 4, vec![(1, 2, f64::NAN)]).unwrap();
        let refused = prune(&sparse, (1, 2), Keep::PerRow(1)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "NaN at row 1, column 2, so that norms have no order\n  help: replace it, or do not prune"
        );
        for fraction in [0.0, -0.5, 1.01, f64::NAN] {
            let refused = prune(&sparse, (1, 2), Keep::Fraction(fraction)).unwrap_err();
            assert!(refused.to_string().contains("of the blocks\n"), "{fraction}");
        }
        assert!(prune(&sparse, (1, 2), Keep::PerRow(0)).unwrap_err().to_string().contains("leave nothing"));
        assert!(prune(&sparse, (0, 2), Keep::PerRow(1)).unwrap_err().to_string().contains("the block is 0 x 2"));
    }
}
