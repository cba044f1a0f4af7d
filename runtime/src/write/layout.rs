//! What both formats say of a matrix.

use crate::{Bsr, Permutation};

/// Rows and columns in whole blocks.
pub(super) fn padded<T>(matrix: &Bsr<T>) -> (usize, usize) {
    let (bm, bk) = matrix.block();
    (matrix.block_rows() * bm, matrix.block_cols() * bk)
}

/// The order as the signed numbers that numpy and torch index with.
pub(super) fn signed(order: &Permutation) -> Vec<u8> {
    order.as_slice().iter().flat_map(|&row| i64::from(row).to_le_bytes()).collect()
}
