//! The reference of SDDMM: the stored blocks of A * B with both factors dense.

use rayon::prelude::*;

use bsr_codegen::Refusal;

use super::compare::other_shape;
use super::{PANEL, add_row, no_row, widen_panel};
use crate::extents::inner;
use crate::{DenseView, Element, Structure};

/// The values of the blocks of A * B that `structure` stores, accumulated in `f64`: block after block, row by row, with
/// zeros beyond the edge of the matrix. Each element adds its products in ascending order of the column of A.
///
/// A kernel with `transpose = on` stores the blocks of C^T = B^T A^T: ask for `sddmm(b.transposed(), a.transposed(),
/// ..)`.
///
/// # Errors
/// When B does not have as many rows as A has columns, or A * B is not of the structure's shape.
pub fn sddmm<'v, A: Element, B: Element>(
    a: impl Into<DenseView<'v, A>>,
    b: impl Into<DenseView<'v, B>>,
    structure: &Structure,
) -> Result<Vec<f64>, Refusal> {
    let blocks: Vec<usize> = (0..structure.nnzb()).collect();
    sddmm_blocks(a, b, structure, &blocks)
}

/// The values of chosen stored blocks, in the order of `blocks`, each bit the same as from [`sddmm`].
///
/// # Errors
/// As [`sddmm`], and when the structure does not store one of the blocks.
pub fn sddmm_blocks<'v, A: Element, B: Element>(
    a: impl Into<DenseView<'v, A>>,
    b: impl Into<DenseView<'v, B>>,
    structure: &Structure,
    blocks: &[usize],
) -> Result<Vec<f64>, Refusal> {
    let (a, b) = (a.into(), b.into());
    if a.cols() != b.rows() {
        return Err(inner((a.rows(), a.cols()), (b.rows(), b.cols())));
    }
    if (a.rows(), b.cols()) != (structure.rows(), structure.cols()) {
        return Err(other_shape(a.rows() * b.cols(), structure.rows(), structure.cols()));
    }
    if let Some(at) = blocks.iter().position(|block| *block >= structure.nnzb()) {
        return Err(no_row(at, blocks[at], structure.nnzb()));
    }
    let (bm, bk) = structure.block();
    let mut values = vec![0.0; blocks.len() * bm * bk];
    values.par_chunks_mut(bm * bk).zip(blocks).for_each(|(out, block)| {
        let row = structure.row_ptr().partition_point(|first| *first as usize <= *block) - 1;
        add_block(a, b, (row * bm, structure.col_idx()[*block] as usize * bk), bk, out);
    });
    Ok(values)
}

/// Adds to `out`, lines of `bk` elements, the part of A * B that begins at `(row, col)`, as far as there is one.
fn add_block<A: Element, B: Element>(
    a: DenseView<'_, A>,
    b: DenseView<'_, B>,
    (row, col): (usize, usize),
    bk: usize,
    out: &mut [f64],
) {
    let height = (out.len() / bk).min(a.rows() - row);
    let width = bk.min(b.cols() - col);
    let (mut left, mut right) = (vec![0.0; height * PANEL.1], vec![0.0; PANEL.1 * width]);
    let mut line = vec![0.0; height.max(PANEL.1)];
    for k in (0..a.cols()).step_by(PANEL.1) {
        let depth = PANEL.1.min(a.cols() - k);
        widen_panel(a, row, k, left.chunks_exact_mut(depth).take(height), &mut line[..height]);
        widen_panel(b, k, col, right.chunks_exact_mut(width).take(depth), &mut line[..depth]);
        for (left, out) in left.chunks_exact(depth).take(height).zip(out.chunks_exact_mut(bk)) {
            add_row(left, &right[..depth * width], &mut out[..width]);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use half::f16;

    use super::*;
    use crate::reference::multiply;
    use crate::{Blocks, Bsr, Dense, Layout, Pattern};

    #[test]
    fn stored_blocks_are_those_of_the_whole_product() {
        for (m, n, k, block) in [(70, 90, 130, (16, 24)), (5, 3, 1, (8, 8)), (64, 64, 64, (64, 32))] {
            for layout in [Layout::RowMajor, Layout::ColMajor] {
                let structure = Pattern::Random(0.4).structure(m, n, block, 3).unwrap();
                let a = Dense::<f16>::normal(m, k, layout, 1);
                let b = Dense::<f16>::normal(k, n, layout, 2);
                let sparse = Bsr::<f16>::from_dense(&a, (8, 8), Blocks::NonZero).unwrap();
                let whole = multiply(&sparse, &b).unwrap();
                let got = sddmm(&a, &b, &structure).unwrap();
                for row in 0..structure.block_rows() {
                    for block_at in structure.blocks_of(row) {
                        for (i, value) in got[block_at * block.0 * block.1..][..block.0 * block.1].iter().enumerate() {
                            let at = (
                                row * block.0 + i / block.1,
                                structure.col_idx()[block_at] as usize * block.1 + i % block.1,
                            );
                            let want = if at.0 < m && at.1 < n { whole[at.0 * n + at.1] } else { 0.0 };
                            assert!((value - want).abs() <= 1e-9, "{at:?}: {value} {want}");
                        }
                    }
                }
                let chosen = if structure.nnzb() > 1 { [structure.nnzb() - 1, 0] } else { continue };
                let some = sddmm_blocks(&a, &b, &structure, &chosen).unwrap();
                let size = block.0 * block.1;
                assert_eq!(some[size..], got[..size]);
                assert_eq!(some[..size], got[chosen[0] * size..]);
            }
        }
    }
}
