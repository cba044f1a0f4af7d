//! The facts a block-sparse matrix must satisfy, one function each.

use super::{BsrError, Structure};
use crate::Element;

/// Sizes and coordinates stay below this: the device counts in 32 bits, signed.
const COORDINATES: usize = 1 << 31;

/// Blocks have an extent, and every length fits a 32-bit coordinate.
pub(super) fn shape(rows: usize, cols: usize, bm: usize, bk: usize) -> Result<(), BsrError> {
    if bm == 0 || bk == 0 {
        return Err(BsrError::ZeroBlock { bm, bk });
    }
    for (what, value) in [("rows", rows), ("cols", cols), ("bm", bm), ("bk", bk)] {
        if value >= COORDINATES {
            return Err(BsrError::TooLarge { what, value });
        }
    }
    Ok(())
}

/// `row_ptr` has the right length, starts at 0, never decreases, and ends at the number of blocks.
pub(super) fn row_ptr(structure: &Structure) -> Result<(), BsrError> {
    let (row_ptr, block_rows, nnzb) = (structure.row_ptr(), structure.block_rows(), structure.nnzb());
    if row_ptr.len() != block_rows + 1 {
        let (got, rows, bm) = (row_ptr.len(), structure.rows(), structure.block().0);
        return Err(BsrError::RowPtrLength { got, rows, bm, block_rows });
    }
    if row_ptr[0] != 0 {
        return Err(BsrError::RowPtrStart { got: row_ptr[0] });
    }
    if let Some(block_row) = row_ptr.windows(2).position(|ends| ends[1] < ends[0]) {
        let (start, end) = (row_ptr[block_row], row_ptr[block_row + 1]);
        return Err(BsrError::RowPtrDecreasing { block_row, start, end });
    }
    let end = row_ptr[block_rows];
    // Not negative: at least row_ptr[0] = 0.
    if end as usize != nnzb {
        return Err(BsrError::RowPtrEnd { block_rows, end, nnzb });
    }
    Ok(())
}

/// Every column index is inside the matrix and greater than the one before it in its block row.
pub(super) fn col_idx(structure: &Structure) -> Result<(), BsrError> {
    let block_cols = structure.block_cols();
    for block_row in 0..structure.block_rows() {
        let mut previous = None;
        for at in structure.blocks_of(block_row) {
            let column = structure.col_idx()[at];
            if !usize::try_from(column).is_ok_and(|column| column < block_cols) {
                let (cols, bk) = (structure.cols(), structure.block().1);
                return Err(BsrError::ColumnOutOfRange { at, block_row, column, block_cols, cols, bk });
            }
            match previous {
                Some(previous) if column < previous => {
                    return Err(BsrError::Unsorted { at, block_row, previous, column });
                }
                Some(previous) if column == previous => {
                    return Err(BsrError::Duplicate { at, block_row, column });
                }
                _ => previous = Some(column),
            }
        }
    }
    Ok(())
}

/// The value array, seen as `nnzb * bm` rows of `bk`, can be addressed by 32-bit row coordinates.
pub(crate) fn offsets(nnzb: usize, bm: usize) -> Result<(), BsrError> {
    if nnzb.checked_mul(bm).is_none_or(|value_rows| value_rows >= COORDINATES) {
        return Err(BsrError::OffsetOverflow { nnzb, bm });
    }
    Ok(())
}

/// Every stored block has all its values.
pub(super) fn values_length(structure: &Structure, got: usize) -> Result<(), BsrError> {
    if got != structure.stored() {
        let (nnzb, (bm, bk)) = (structure.nnzb(), structure.block());
        return Err(BsrError::ValuesLength { got, nnzb, bm, bk });
    }
    Ok(())
}

/// What extends beyond the edge of the matrix is zero. Only the blocks of the last block row and of the last
/// block column are visited, and only if they extend beyond the edge.
pub(super) fn padding<T: Element>(structure: &Structure, values: &[T]) -> Result<(), BsrError> {
    padding_of(structure, values, T::to_f64)
}

/// As [`padding`], of values of any type.
pub(crate) fn padding_of<V: Copy>(
    structure: &Structure,
    values: &[V],
    to_f64: impl Fn(V) -> f64,
) -> Result<(), BsrError> {
    let (rows, cols, (bm, bk)) = (structure.rows(), structure.cols(), structure.block());
    for block_row in 0..structure.block_rows() {
        let inside_rows = bm.min(rows - block_row * bm);
        for block in structure.blocks_of(block_row) {
            let first_col = structure.col_idx()[block] as usize * bk;
            let inside_cols = bk.min(cols - first_col);
            if inside_rows == bm && inside_cols == bk {
                continue;
            }
            for (r, line) in values[block * bm * bk..][..bm * bk].chunks_exact(bk).enumerate() {
                let outside = if r < inside_rows { inside_cols } else { 0 };
                if let Some(c) = line[outside..].iter().position(|&v| to_f64(v) != 0.0) {
                    let c = outside + c;
                    return Err(BsrError::PaddingNotZero {
                        at: (block * bm + r) * bk + c,
                        block,
                        row: block_row * bm + r,
                        col: first_col + c,
                        rows,
                        cols,
                        value: to_f64(line[c]),
                    });
                }
            }
        }
    }
    Ok(())
}
