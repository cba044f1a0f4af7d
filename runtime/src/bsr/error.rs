//! Everything that can be wrong with a block-sparse matrix.

use thiserror::Error;

/// Why a block-sparse matrix was refused: the fact, the place, the arithmetic, and what to do.
///
/// Indices count from 0. `col_idx` and `row_ptr` positions are positions in those arrays.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum BsrError {
    /// A side of the block is zero.
    #[error("the block is {bm} x {bk}, but both sides must be at least 1; give the size the blocks are stored in")]
    ZeroBlock {
        /// Rows of a block.
        bm: usize,
        /// Columns of a block.
        bk: usize,
    },
    /// A length that 32-bit coordinates cannot count.
    #[error(
        "{what} = {value} is not below 2^31 = 2147483648, the limit of the device's 32-bit coordinates; \
         split the matrix and multiply the parts"
    )]
    TooLarge {
        /// What is too large: `rows`, `cols`, `bm` or `bk`.
        what: &'static str,
        /// Its value.
        value: usize,
    },
    /// `row_ptr` does not have one entry a block row and one more.
    #[error(
        "row_ptr has {got} entries, but {rows} rows in blocks of {bm} make {block_rows} block rows, which take \
         {block_rows} + 1 = {}; give where each block row starts, then the number of stored blocks", block_rows + 1
    )]
    RowPtrLength {
        /// Entries given.
        got: usize,
        /// Rows of the matrix.
        rows: usize,
        /// Rows of a block.
        bm: usize,
        /// Block rows of the matrix.
        block_rows: usize,
    },
    /// The first block row does not start at block 0.
    #[error("row_ptr[0] = {got}, but the first block row starts at block 0; subtract {got} from every entry")]
    RowPtrStart {
        /// The first entry.
        got: i32,
    },
    /// A block row ends before it starts.
    #[error(
        "row_ptr[{}] = {end} is less than row_ptr[{block_row}] = {start}, so block row {block_row} would hold \
         {end} - {start} = {} blocks; make row_ptr the running sum of the block row lengths",
        block_row + 1, i64::from(*end) - i64::from(*start)
    )]
    RowPtrDecreasing {
        /// The block row of negative length.
        block_row: usize,
        /// Where it starts.
        start: i32,
        /// Where it ends.
        end: i32,
    },
    /// The last entry of `row_ptr` is not the number of column indices.
    #[error(
        "row_ptr[{block_rows}] = {end} stored blocks, but col_idx has {nnzb} entries; \
         give one column index for each stored block"
    )]
    RowPtrEnd {
        /// Block rows of the matrix: the position of the last entry.
        block_rows: usize,
        /// The last entry.
        end: i32,
        /// Entries of `col_idx`.
        nnzb: usize,
    },
    /// A block lies left or right of the matrix.
    #[error(
        "col_idx[{at}] = {column} in block row {block_row} is outside 0..{block_cols}: {cols} columns in blocks \
         of {bk} make {block_cols} block columns; count columns in blocks, from 0"
    )]
    ColumnOutOfRange {
        /// Position in `col_idx`.
        at: usize,
        /// Block row of the block.
        block_row: usize,
        /// The column index.
        column: i32,
        /// Block columns of the matrix.
        block_cols: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Columns of a block.
        bk: usize,
    },
    /// The blocks of a block row are not in ascending order.
    #[error(
        "col_idx[{at}] = {column} follows {previous} in block row {block_row}; \
         sort each block row by column, the values of the blocks with it"
    )]
    Unsorted {
        /// Position in `col_idx`.
        at: usize,
        /// Block row of the block.
        block_row: usize,
        /// The column index before.
        previous: i32,
        /// The column index.
        column: i32,
    },
    /// One place holds two blocks.
    #[error(
        "col_idx[{}] and col_idx[{at}] are both {column} in block row {block_row}; \
         add the two blocks and store the sum once", at - 1
    )]
    Duplicate {
        /// Position of the second in `col_idx`.
        at: usize,
        /// Block row of the blocks.
        block_row: usize,
        /// The column index of both.
        column: i32,
    },
    /// Row offsets into the values do not fit 32 bits.
    #[error(
        "{nnzb} blocks of {bm} rows stack to {nnzb} * {bm} = {} value rows, and 32-bit coordinates stop at \
         2^31 - 1 = 2147483647; split the matrix by rows", *nnzb as u128 * *bm as u128
    )]
    OffsetOverflow {
        /// Stored blocks.
        nnzb: usize,
        /// Rows of a block.
        bm: usize,
    },
    /// The number of values is not the number of blocks times the size of a block.
    #[error(
        "{got} values, but {nnzb} blocks of {bm} x {bk} have {nnzb} * {bm} * {bk} = {}; \
         store every block whole, blocks that extend beyond the edge of the matrix too", nnzb * bm * bk
    )]
    ValuesLength {
        /// Values given.
        got: usize,
        /// Stored blocks.
        nnzb: usize,
        /// Rows of a block.
        bm: usize,
        /// Columns of a block.
        bk: usize,
    },
    /// A block extends beyond the edge of the matrix with something other than zero.
    #[error(
        "values[{at}] = {value} in block {block} lies at row {row}, column {col} of a {rows} x {cols} matrix; \
         the part of a block beyond the edge is multiplied too: set it to zero"
    )]
    PaddingNotZero {
        /// Position in `values`.
        at: usize,
        /// The block, counted in storage order.
        block: usize,
        /// Row of the element.
        row: usize,
        /// Column of the element.
        col: usize,
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// The element.
        value: f64,
    },
    /// `from_dense_mask` was given a mask of another size.
    #[error(
        "the mask has {got} entries, but {block_rows} block rows of {block_cols} blocks take \
         {block_rows} * {block_cols} = {}; give one flag for each block, row by row", block_rows * block_cols
    )]
    MaskLength {
        /// Flags given.
        got: usize,
        /// Block rows of the matrix.
        block_rows: usize,
        /// Block columns of the matrix.
        block_cols: usize,
    },
}

bsr_codegen::message_as_debug!(BsrError);
