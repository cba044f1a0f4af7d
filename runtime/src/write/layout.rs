//! What both formats say of a matrix.

use bsr_codegen::IndexWidth;

use crate::bsr::narrow_row_ptr;
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

/// Row pointers as numpy and torch index with, in as few bits as count the blocks.
pub(super) fn pointers(row_ptr: &[i64]) -> (IndexWidth, Vec<u8>) {
    match narrow_row_ptr(row_ptr) {
        Ok(narrow) => (IndexWidth::I32, narrow.into_iter().flat_map(i32::to_le_bytes).collect()),
        Err(_) => (IndexWidth::I64, row_ptr.iter().flat_map(|at| at.to_le_bytes()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_pointers_have_64_bits_where_32_do_not_count_the_blocks() {
        let most = i64::from(i32::MAX);
        assert_eq!(pointers(&[0, most]), (IndexWidth::I32, [[0; 4], i32::MAX.to_le_bytes()].concat()));
        assert_eq!(pointers(&[0, most + 1]), (IndexWidth::I64, [[0; 8], (most + 1).to_le_bytes()].concat()));
    }
}
