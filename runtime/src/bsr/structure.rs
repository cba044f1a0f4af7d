//! Where the blocks of a block-sparse matrix are.

use bsr_codegen::Refusal;
use std::ops::Range;

use super::transposed::{Cached, Transposed};
use super::validate;

/// The shape of a block-sparse matrix and the places of its stored blocks, without values.
///
/// A `rows` x `cols` matrix is cut into blocks of `bm` x `bk` elements: `ceil(rows / bm)` block rows and
/// `ceil(cols / bk)` block columns; the last ones may extend beyond the edge. The blocks of block row `i` are
/// those numbered `row_ptr[i]..row_ptr[i + 1]`, and block `p` stands in block column `col_idx[p]`.
/// A `Structure` is valid by construction. Row pointers have 64 bits: small blocks may be more than 2^31.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Structure {
    rows: usize,
    cols: usize,
    bm: usize,
    bk: usize,
    row_ptr: Vec<i64>,
    col_idx: Vec<i32>,
    transposed: Cached,
}

impl Structure {
    /// Checks and takes the structure of a `rows` x `cols` matrix in blocks of `(bm, bk)` elements. Row pointers are `i32` or
    /// `i64`.
    ///
    /// # Errors
    /// The first fact that is wrong, in the order shape, `row_ptr`, `col_idx`, offsets.
    pub fn new(
        rows: usize,
        cols: usize,
        (bm, bk): (usize, usize),
        row_ptr: Vec<impl Into<i64>>,
        col_idx: Vec<i32>,
    ) -> Result<Self, Refusal> {
        validate::shape(rows, cols, bm, bk)?;
        let row_ptr = row_ptr.into_iter().map(Into::into).collect();
        let structure = Self { rows, cols, bm, bk, row_ptr, col_idx, transposed: Cached::default() };
        validate::row_ptr(&structure)?;
        validate::col_idx(&structure)?;
        validate::offsets(structure.nnzb(), (bm, bk))?;
        Ok(structure)
    }

    /// The structure of a matrix without blocks.
    ///
    /// # Errors
    /// When the block has a zero side, or a side of matrix or block is 2^31 or more.
    pub fn empty(rows: usize, cols: usize, (bm, bk): (usize, usize)) -> Result<Self, Refusal> {
        validate::shape(rows, cols, bm, bk)?;
        let row_ptr = vec![0; rows.div_ceil(bm) + 1];
        Ok(Self { rows, cols, bm, bk, row_ptr, col_idx: Vec::new(), transposed: Cached::default() })
    }

    /// Whole block rows, as a matrix of their own. They must be there.
    pub(crate) fn part(&self, block_rows: Range<usize>) -> Self {
        let row_ptr = &self.row_ptr[block_rows.start..=block_rows.end];
        let (start, end) = (self.row_ptr[block_rows.start], self.row_ptr[block_rows.end]);
        Self {
            rows: (block_rows.end * self.bm).min(self.rows) - (block_rows.start * self.bm).min(self.rows),
            row_ptr: row_ptr.iter().map(|at| at - start).collect(),
            col_idx: self.col_idx[start as usize..end as usize].to_vec(),
            transposed: Cached::default(),
            ..*self
        }
    }

    /// Whole block columns, as a matrix of their own. They must be there.
    pub(crate) fn columns(&self, block_cols: Range<usize>) -> Self {
        let (mut row_ptr, mut col_idx) = (Vec::with_capacity(self.row_ptr.len()), Vec::new());
        row_ptr.push(0);
        for block_row in 0..self.block_rows() {
            let of_row = &self.col_idx[self.blocks_of(block_row)];
            let kept = of_row.iter().filter(|&&column| block_cols.contains(&(column as usize)));
            col_idx.extend(kept.map(|column| column - block_cols.start as i32));
            row_ptr.push(col_idx.len() as i64);
        }
        let cols = (block_cols.end * self.bk).min(self.cols) - (block_cols.start * self.bk).min(self.cols);
        Self { cols, row_ptr, col_idx, transposed: Cached::default(), ..*self }
    }

    /// Rows of the matrix, in elements.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of the matrix, in elements.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Rows and columns of a block, in elements.
    pub fn block(&self) -> (usize, usize) {
        (self.bm, self.bk)
    }

    /// Number of block rows, the last of which may extend beyond the edge.
    pub fn block_rows(&self) -> usize {
        self.rows.div_ceil(self.bm)
    }

    /// Number of block columns, the last of which may extend beyond the edge.
    pub fn block_cols(&self) -> usize {
        self.cols.div_ceil(self.bk)
    }

    /// Number of stored blocks.
    pub fn nnzb(&self) -> usize {
        self.col_idx.len()
    }

    /// Where each block row starts in `col_idx`, and the number of stored blocks: `block_rows() + 1` entries.
    pub fn row_ptr(&self) -> &[i64] {
        &self.row_ptr
    }

    /// The block column of each stored block, ascending within a block row.
    pub fn col_idx(&self) -> &[i32] {
        &self.col_idx
    }

    /// The index of the blocks by block column, with which the transposed matrix is read. It is made when it is first
    /// asked for, and kept: `8 * (block_cols + 1 + nnzb)` bytes.
    ///
    /// # Errors
    /// For 2^31 blocks and more, whose numbers in the index have 32 bits.
    pub fn transposed(&self) -> Result<&Transposed, Refusal> {
        validate::numbers(self.nnzb())?;
        Ok(self.by_columns())
    }

    /// As [`Structure::transposed`], of a matrix whose blocks were counted: the check of a launch does.
    pub(crate) fn by_columns(&self) -> &Transposed {
        self.transposed.get(|| Transposed::new(&self.row_ptr, &self.col_idx, self.block_cols()))
    }

    /// The structure of the transposed matrix, whose stored blocks are `bk` x `bm`.
    ///
    /// # Errors
    /// As [`Structure::transposed`]; when `nnzb * bk` is 2^31 or more, unless blocks are small.
    pub fn transpose(&self) -> Result<Self, Refusal> {
        let index = self.transposed()?;
        let (row_ptr, col_idx) = (index.row_ptr().to_vec(), index.col_idx().to_vec());
        Self::new(self.cols, self.rows, (self.bk, self.bm), row_ptr, col_idx)
    }

    /// The numbers of the blocks of a block row.
    ///
    /// # Panics
    /// When `block_row >= self.block_rows()`.
    pub fn blocks_of(&self, block_row: usize) -> Range<usize> {
        // Never negative: row_ptr starts at 0 and does not decrease.
        self.row_ptr[block_row] as usize..self.row_ptr[block_row + 1] as usize
    }

    /// The number of stored blocks of each block row.
    pub fn row_lengths(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.row_ptr.windows(2).map(|ends| (ends[1] - ends[0]) as usize)
    }

    /// Stored blocks as a fraction of all blocks; 0 for a matrix that has room for none.
    pub fn density(&self) -> f64 {
        let all = self.block_rows() * self.block_cols();
        if all == 0 { 0.0 } else { self.nnzb() as f64 / all as f64 }
    }

    /// Number of values of the stored blocks, padding included: `nnzb * bm * bk`.
    pub fn stored(&self) -> usize {
        self.nnzb() * self.bm * self.bk
    }

    /// Floating-point operations of a multiply with an `n`-column dense matrix, counting stored blocks only:
    /// `2 * nnzb * bm * bk * n`.
    pub fn executed_flops(&self, n: usize) -> u64 {
        (self.stored() as u64).saturating_mul(2).saturating_mul(n as u64)
    }
}
