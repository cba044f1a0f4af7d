//! The sparse operand: a scale for the matrix, for every row, or for every stored block.

use bsr_codegen::{Refusal, Scale};
use rayon::prelude::*;

use super::narrow::{NanPolicy, Narrow, amax, narrow, not_finite, refused, scale_of};
use crate::{Bsr, Element};

/// The same blocks in 8 bits, and their scales: none, one, one for every row, or one for every stored block.
///
/// # Errors
/// The first value, in storage order, that `nan` refuses.
pub fn bsr<T: Narrow, S: Element>(a: &Bsr<S>, scale: Scale, nan: NanPolicy) -> Result<(Bsr<T>, Vec<f32>), Refusal> {
    if let Some(at) = a.values().par_iter().position_first(|value| refused::<T, S>(*value, nan)) {
        return Err(not_finite("A", place(a, at), a.values()[at].to_f64(), T::DTYPE));
    }
    let (bm, bk) = a.block();
    let scales: Vec<f32> = match scale {
        Scale::Unscaled => Vec::new(),
        Scale::Tensor => {
            let most = a.values().par_chunks(bm * bk).map(|block| amax(block.iter().copied())).reduce(|| 0.0, f64::max);
            vec![scale_of::<T>(most)]
        }
        Scale::RowCol => (0..a.rows())
            .into_par_iter()
            .map(|row| {
                let lines = a.blocks_of(row / bm).map(|block| &a.block_values(block)[row % bm * bk..][..bk]);
                scale_of::<T>(amax(lines.flatten().copied()))
            })
            .collect(),
        Scale::Block => {
            a.values().par_chunks(bm * bk).map(|block| scale_of::<T>(amax(block.iter().copied()))).collect()
        }
    };
    let mut values = vec![T::ZERO; a.values().len()];
    for block_row in 0..a.block_rows() {
        let blocks = a.blocks_of(block_row);
        let stored = blocks.start * bm * bk..blocks.end * bm * bk;
        let lines = values[stored.clone()].par_chunks_exact_mut(bk).zip(a.values()[stored].par_chunks_exact(bk));
        lines.enumerate().for_each(|(at, (out, line))| {
            let scale = match scale {
                Scale::Unscaled => 1.0,
                Scale::Tensor => scales[0],
                // Rows that extend beyond the edge are zeros.
                Scale::RowCol => scales.get(block_row * bm + at % bm).copied().unwrap_or(1.0),
                Scale::Block => scales[blocks.start + at / bm],
            };
            out.iter_mut().zip(line).for_each(|(slot, value)| *slot = narrow(*value, scale));
        });
    }
    let narrowed = Bsr::from_structure(a.structure().clone(), values)
        .expect("as many values as before, and zeros beyond the edge stay zeros");
    Ok((narrowed, scales))
}

/// Row and column of the value at position `at`.
fn place<S: Element>(a: &Bsr<S>, at: usize) -> (usize, usize) {
    let (bm, bk) = a.block();
    let (block, row, col) = (at / (bm * bk), at / bk % bm, at % bk);
    // The last block row that starts at or before the block; empty ones before it start there too.
    let block_row = a.row_ptr().partition_point(|&start| start as usize <= block) - 1;
    (block_row * bm + row, a.col_idx()[block] as usize * bk + col)
}
