//! Block-sparse matrices in BSR format.

mod convert;
mod layout;
mod pairs;
mod structure;
mod transposed;
mod validate;

use bsr_codegen::{Layout, Refusal};
use std::ops::Range;

use rayon::prelude::*;

pub use convert::Blocks;
pub(crate) use layout::turned;
// The cost model follows the pairs of a product.
#[doc(hidden)]
pub use pairs::Pairs;
pub use structure::Structure;
pub use transposed::Transposed;
#[cfg(feature = "files")]
pub(crate) use validate::padding_of as check_padding;
pub(crate) use validate::{narrow_row_ptr, numbers as check_numbers, offsets as check_offsets};

use crate::Element;
use crate::random::{Streams, fill_normal};

/// A block-sparse matrix: the [`Structure`] and the values of the stored blocks.
///
/// The values of block `p` are `values[p * bm * bk..][..bm * bk]`, row by row; the blocks stand in the order
/// of `col_idx`. This is the layout of scipy's `bsr_array` and torch's `sparse_bsr`. The matrix need not be a
/// multiple of the block: blocks that extend beyond the edge are stored whole, and their elements beyond `rows`
/// or `cols` are zero.
///
/// A `Bsr` is valid by construction, so nothing needs to be checked before a launch.
///
/// # NaN and infinities
/// Inside the matrix they are allowed and propagate: a stored NaN makes its row of the product NaN, and a
/// stored zero times an infinity is NaN, as in a dense multiply of the stored blocks. A block that is not
/// stored contributes nothing, even where the other operand is infinite or NaN. In the padding they are
/// refused.
///
/// # Example
/// ```
/// use bsr_runtime::{Bsr, Dense, Layout, reference};
///
/// // 2 x 3 elements in blocks of 2 x 2; the second block extends beyond the edge by one column.
/// let values = vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 0.0, 6.0, 0.0];
/// let a = Bsr::new(2, 3, (2, 2), vec![0, 2], vec![0, 1], values)?;
/// let b = Dense::from_fn(3, 1, Layout::RowMajor, |_, _| 1.0f32);
/// assert_eq!(reference::multiply(&a, &b)?, [8.0, 13.0]);
///
/// let refused = Bsr::new(2, 3, (2, 2), vec![0, 2], vec![1, 0], vec![0.0f32; 8]);
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "col_idx[1] = 0 follows 1 in block row 0\n  help: sort each block row by column, the values of the blocks with it"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Bsr<T> {
    structure: Structure,
    values: Vec<T>,
}

impl<T: Element> Bsr<T> {
    /// Checks and takes a `rows` x `cols` matrix in blocks of `(bm, bk)` elements: `ceil(rows / bm) + 1` row
    /// pointers (`i32` or `i64`), one column index (in blocks) and `bm * bk` values for each stored block.
    ///
    /// # Errors
    /// The first fact that is wrong, in the order shape, `row_ptr`, `col_idx`, offsets, `values`, padding.
    pub fn new(
        rows: usize,
        cols: usize,
        block: (usize, usize),
        row_ptr: Vec<impl Into<i64>>,
        col_idx: Vec<i32>,
        values: Vec<T>,
    ) -> Result<Self, Refusal> {
        Self::from_structure(Structure::new(rows, cols, block, row_ptr, col_idx)?, values)
    }

    /// Gives values to a structure.
    ///
    /// # Errors
    /// When the number of values is not `nnzb * bm * bk`, or a value beyond the edge is not zero.
    pub fn from_structure(structure: Structure, values: Vec<T>) -> Result<Self, Refusal> {
        validate::values_length(&structure, values.len())?;
        validate::padding(&structure, &values)?;
        Ok(Self { structure, values })
    }

    /// Gives values to a structure; those beyond the edge become zero.
    ///
    /// # Errors
    /// When the number of values is not `nnzb * bm * bk`.
    pub(crate) fn cleared(structure: Structure, values: Vec<T>) -> Result<Self, Refusal> {
        validate::values_length(&structure, values.len())?;
        let mut made = Self { structure, values };
        made.clear_padding();
        Ok(made)
    }

    /// Gives values to a structure, those of a valid matrix that has these blocks and more.
    pub(crate) fn from_valid(structure: Structure, values: Vec<T>) -> Self {
        debug_assert_eq!(structure.stored(), values.len());
        Self { structure, values }
    }

    /// Fills a structure with independent draws from N(0, 1). Integers draw as wide as [`Element::SPREAD`] says,
    /// rounded.
    ///
    /// Block `p` is the `p`-th stream of the seed: the same on every platform and for any number of threads.
    pub fn normal(structure: Structure, seed: u64) -> Self {
        let streams = Streams::new(seed, b"blocks..");
        let (bm, bk) = structure.block();
        let mut values = vec![T::ZERO; structure.stored()];
        values.par_chunks_exact_mut(bm * bk).enumerate().for_each(|(block, out)| {
            fill_normal(&mut streams.get(block), out);
        });
        let mut made = Self { structure, values };
        made.clear_padding();
        made
    }
    /// The values of the stored blocks: `nnzb` times `bm * bk`.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The `bm * bk` values of stored block `block`, row by row.
    ///
    /// # Panics
    /// When `block >= self.nnzb()`.
    pub fn block_values(&self, block: usize) -> &[T] {
        let (bm, bk) = self.block();
        &self.values[block * bm * bk..][..bm * bk]
    }

    /// The structure and the values.
    pub fn into_parts(self) -> (Structure, Vec<T>) {
        (self.structure, self.values)
    }

    /// The same matrix in another element type, each value rounded once as [`Element::from_f64`] says, beyond the
    /// range of `U` too.
    pub fn cast<U: Element>(&self) -> Bsr<U> {
        let values = self.values.par_iter().map(|v| U::from_f64(v.to_f64())).collect();
        Bsr { structure: self.structure.clone(), values }
    }

    /// The transposed matrix, with blocks of `(bk, bm)`: a copy. Kernels with `transpose = on` need none.
    ///
    /// # Errors
    /// As [`Structure::transpose`].
    pub fn transpose(&self) -> Result<Self, Refusal> {
        let structure = self.structure.transpose()?;
        let (bm, bk) = self.block();
        let mut values = vec![T::ZERO; self.values.len()];
        let (index, by_columns) = (self.structure.by_columns().block_idx(), self.values_in(Layout::ColMajor));
        values.par_chunks_exact_mut(bm * bk).zip(index).for_each(|(out, stored)| {
            out.copy_from_slice(&by_columns[*stored as usize * bm * bk..][..bm * bk]);
        });
        Ok(Self { structure, values })
    }

    /// Zeroes whatever extends beyond the edge.
    fn clear_padding(&mut self) {
        let (rows, cols, (bm, bk)) = (self.rows(), self.cols(), self.block());
        for block_row in 0..self.block_rows() {
            let inside_rows = bm.min(rows - block_row * bm);
            for block in self.structure.blocks_of(block_row) {
                let inside_cols = bk.min(cols - self.structure.col_idx()[block] as usize * bk);
                if inside_rows == bm && inside_cols == bk {
                    continue;
                }
                for (r, line) in self.values[block * bm * bk..][..bm * bk].chunks_exact_mut(bk).enumerate() {
                    line[if r < inside_rows { inside_cols } else { 0 }..].fill(T::ZERO);
                }
            }
        }
    }
}

/// The facts of the [`Structure`].
impl<T> Bsr<T> {
    /// Shape and places of the blocks.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Rows of the matrix, in elements.
    pub fn rows(&self) -> usize {
        self.structure.rows()
    }

    /// Columns of the matrix, in elements.
    pub fn cols(&self) -> usize {
        self.structure.cols()
    }

    /// Rows and columns of a block, in elements.
    pub fn block(&self) -> (usize, usize) {
        self.structure.block()
    }

    /// Number of block rows, the last of which may extend beyond the edge.
    pub fn block_rows(&self) -> usize {
        self.structure.block_rows()
    }

    /// Number of block columns, the last of which may extend beyond the edge.
    pub fn block_cols(&self) -> usize {
        self.structure.block_cols()
    }

    /// Number of stored blocks.
    pub fn nnzb(&self) -> usize {
        self.structure.nnzb()
    }

    /// Where each block row starts in `col_idx`, and the number of stored blocks: `block_rows() + 1` entries.
    pub fn row_ptr(&self) -> &[i64] {
        self.structure.row_ptr()
    }

    /// The block column of each stored block, ascending within a block row.
    pub fn col_idx(&self) -> &[i32] {
        self.structure.col_idx()
    }

    /// The numbers of the blocks of a block row.
    ///
    /// # Panics
    /// When `block_row >= self.block_rows()`.
    pub fn blocks_of(&self, block_row: usize) -> Range<usize> {
        self.structure.blocks_of(block_row)
    }

    /// The number of stored blocks of each block row.
    pub fn row_lengths(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.structure.row_lengths()
    }

    /// Stored blocks as a fraction of all blocks; 0 for a matrix that has room for none.
    pub fn density(&self) -> f64 {
        self.structure.density()
    }

    /// Floating-point operations of a multiply with an `n`-column dense matrix, counting stored blocks only:
    /// `2 * nnzb * bm * bk * n`.
    pub fn executed_flops(&self, n: usize) -> u64 {
        self.structure.executed_flops(n)
    }
}
