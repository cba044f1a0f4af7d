//! Block-sparse to dense and back.

use bsr_codegen::{Layout, Refusal};
use rayon::prelude::*;

use super::{Bsr, Structure, validate};
use crate::{Dense, DenseView, Element};

/// Which blocks of a dense matrix [`Bsr::from_dense`] stores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blocks {
    /// Those with a value other than zero.
    NonZero,
    /// Those with a value of a magnitude above this, or a NaN.
    Above(f64),
    /// All of them.
    All,
}

impl<T: Element> Bsr<T> {
    /// The matrix with every element stored, in order `layout`; blocks that are not stored become zeros.
    pub fn to_dense(&self, layout: Layout) -> Dense<T> {
        let mut dense = Dense::zeros(self.rows(), self.cols(), layout);
        let (ld, (bm, bk)) = (dense.ld(), self.block());
        let data = dense.data_mut();
        for block_row in 0..self.block_rows() {
            let first_row = block_row * bm;
            let height = bm.min(self.rows() - first_row);
            for block in self.blocks_of(block_row) {
                let first_col = self.col_idx()[block] as usize * bk;
                let width = bk.min(self.cols() - first_col);
                for (r, line) in self.block_values(block).chunks_exact(bk).take(height).enumerate() {
                    let row = first_row + r;
                    match layout {
                        Layout::RowMajor => data[row * ld + first_col..][..width].copy_from_slice(&line[..width]),
                        Layout::ColMajor => {
                            for (c, &value) in line[..width].iter().enumerate() {
                                data[(first_col + c) * ld + row] = value;
                            }
                        }
                    }
                }
            }
        }
        dense
    }

    /// Keeps the blocks of `dense` that `blocks` says, whole.
    ///
    /// ```
    /// use bsr_runtime::{Blocks, Bsr, Dense, Layout};
    ///
    /// let dense = Dense::from_fn(4, 4, Layout::RowMajor, |row, col| if row / 2 == col / 2 { 0.5f32 } else { 0.0 });
    /// assert_eq!(Bsr::from_dense(&dense, (2, 2), Blocks::NonZero)?.col_idx(), [0, 1]);
    /// assert_eq!(Bsr::from_dense(&dense, (2, 2), Blocks::Above(0.5))?.nnzb(), 0);
    /// # Ok::<(), bsr_codegen::Refusal>(())
    /// ```
    ///
    /// # Errors
    /// When the block has a zero side, or shape or offsets do not fit 32-bit coordinates.
    pub fn from_dense<'a>(
        dense: impl Into<DenseView<'a, T>>,
        block: (usize, usize),
        blocks: Blocks,
    ) -> Result<Self, Refusal> {
        let view = dense.into();
        validate::shape(view.rows(), view.cols(), block.0, block.1)?;
        let counts = |value: T| match blocks {
            Blocks::NonZero => value != T::ZERO,
            Blocks::Above(magnitude) => value.to_f64().is_nan() || value.to_f64().abs() > magnitude,
            Blocks::All => true,
        };
        let kept = |place: &BlockPlace| place.elements().any(|(row, col)| view.get(row, col).is_some_and(counts));
        Self::gather(view, block, kept)
    }

    /// Keeps the blocks of `dense` whose flag in `mask` is set, whole, zeros or not: one flag for each block,
    /// row by row.
    ///
    /// # Errors
    /// When the block has a zero side, the mask does not have one flag for each block, or shape or offsets
    /// do not fit 32-bit coordinates.
    pub fn from_dense_mask<'a>(
        dense: impl Into<DenseView<'a, T>>,
        block: (usize, usize),
        mask: &[bool],
    ) -> Result<Self, Refusal> {
        let view = dense.into();
        let (block_rows, block_cols) = {
            validate::shape(view.rows(), view.cols(), block.0, block.1)?;
            (view.rows().div_ceil(block.0), view.cols().div_ceil(block.1))
        };
        if mask.len() != block_rows * block_cols {
            let (got, need) = (mask.len(), block_rows * block_cols);
            return Err(Refusal::new(format!("the mask has {got} entries, and {need} blocks take {need}"))
                .why(format!("{block_rows} block rows of {block_cols} blocks: {block_rows} * {block_cols} = {need}"))
                .help("give one flag for each block, row by row"));
        }
        Self::gather(view, block, |place| mask[place.block_row * block_cols + place.block_col])
    }

    /// Copies the blocks that `kept` chooses. The shape has been checked.
    fn gather(
        view: DenseView<'_, T>,
        block: (usize, usize),
        kept: impl Fn(&BlockPlace) -> bool + Sync,
    ) -> Result<Self, Refusal> {
        let (rows, cols) = (view.rows(), view.cols());
        let chosen: Vec<Vec<BlockPlace>> = (0..rows.div_ceil(block.0))
            .into_par_iter()
            .map(|block_row| {
                let places =
                    (0..cols.div_ceil(block.1)).map(|col| BlockPlace::new((rows, cols), block, block_row, col));
                places.filter(&kept).collect()
            })
            .collect();

        let nnzb = chosen.iter().map(Vec::len).sum();
        validate::offsets(nnzb, block)?;
        let (mut row_ptr, mut col_idx) = (vec![0], Vec::with_capacity(nnzb));
        for row in &chosen {
            col_idx.extend(row.iter().map(|place| place.block_col as i32));
            row_ptr.push(col_idx.len() as i64);
        }
        let structure = Structure::new(rows, cols, block, row_ptr, col_idx)?;

        let mut values = vec![T::ZERO; structure.stored()];
        let places: Vec<&BlockPlace> = chosen.iter().flatten().collect();
        values.par_chunks_exact_mut(block.0 * block.1).zip(places).for_each(|(out, place)| {
            for (row, col) in place.elements() {
                let at = (row - place.first_row) * block.1 + (col - place.first_col);
                out[at] = view.get(row, col).unwrap_or(T::ZERO);
            }
        });
        Self::from_structure(structure, values)
    }
}

/// One block of a dense matrix.
struct BlockPlace {
    block_row: usize,
    block_col: usize,
    first_row: usize,
    first_col: usize,
    height: usize,
    width: usize,
}

impl BlockPlace {
    fn new((rows, cols): (usize, usize), (bm, bk): (usize, usize), block_row: usize, block_col: usize) -> Self {
        let (first_row, first_col) = (block_row * bm, block_col * bk);
        let (height, width) = (bm.min(rows - first_row), bk.min(cols - first_col));
        Self { block_row, block_col, first_row, first_col, height, width }
    }

    /// The elements of the block that lie inside the matrix, row by row.
    fn elements(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let rows = self.first_row..self.first_row + self.height;
        rows.flat_map(|row| (self.first_col..self.first_col + self.width).map(move |col| (row, col)))
    }
}
