//! What a file says, before a block size is chosen.

use crate::{Bsr, DenseView, Element, Permutation, Structure};
use bsr_codegen::{Dtype, Refusal};

/// A matrix with `f64` values, as a file holds it: by elements, in the file's own blocks, or dense.
#[derive(Clone, Debug, PartialEq)]
pub struct Sparse {
    rows: usize,
    cols: usize,
    pub(super) body: Body,
    /// The element type of the file, where it is one of ours.
    dtype: Option<Dtype>,
    /// The original row of each row, where the file says that rows were reordered.
    order: Option<Permutation>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Body {
    /// By row, then by column, each place once.
    Elements(Vec<(u32, u32, f64)>),
    /// Valid, in the file's own blocks.
    Blocks { structure: Structure, values: Vec<f64> },
    /// Every element, row by row.
    Dense(Vec<f64>),
}

impl Sparse {
    fn of(rows: usize, cols: usize, body: Body) -> Self {
        Self { rows, cols, body, dtype: None, order: None }
    }

    /// Takes `(row, col, value)` in any order; values at the same place are added.
    ///
    /// # Errors
    /// When a side is 2^31 or more, or an element lies outside the matrix.
    pub fn from_triplets(rows: usize, cols: usize, mut triplets: Vec<(u32, u32, f64)>) -> Result<Self, Refusal> {
        Structure::empty(rows, cols, (rows.max(1), cols.max(1)))?;
        if let Some(at) = triplets.iter().position(|&(row, col, _)| row as usize >= rows || col as usize >= cols) {
            let (row, col, _) = triplets[at];
            let place = format!("triplet {at} is at row {row}, column {col}");
            return Err(Refusal::new(format!("{place}, outside a {rows} x {cols} matrix"))
                .help("count from 0, and give the shape that holds all elements"));
        }
        // Stable, so that values at the same place are added in the order given.
        triplets.sort_by_key(|&(row, col, _)| (row, col));
        triplets.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        Ok(Self::of(rows, cols, Body::Elements(triplets)))
    }

    /// Takes a dense matrix, zeros and all; its zeros are not stored in any blocks.
    ///
    /// # Errors
    /// When a side is 2^31 or more.
    pub fn from_dense<'a, T: Element>(dense: impl Into<DenseView<'a, T>>) -> Result<Self, Refusal> {
        let view = dense.into();
        Structure::empty(view.rows(), view.cols(), (view.rows().max(1), view.cols().max(1)))?;
        Ok(Self::from_rows(view.rows(), view.cols(), view.to_f64()).with_dtype(Some(T::DTYPE)))
    }

    /// Takes a matrix in blocks, those of zeros too.
    pub fn from_bsr<T: Element>(matrix: &Bsr<T>) -> Self {
        let values = matrix.values().iter().map(|value| value.to_f64()).collect();
        Self::from_blocks(matrix.structure().clone(), values).with_dtype(Some(T::DTYPE))
    }

    /// Takes blocks; `values` has `structure.stored()` entries.
    pub(super) fn from_blocks(structure: Structure, values: Vec<f64>) -> Self {
        debug_assert_eq!(values.len(), structure.stored());
        Self::of(structure.rows(), structure.cols(), Body::Blocks { structure, values })
    }

    /// Takes every element of a matrix, row by row.
    pub(super) fn from_rows(rows: usize, cols: usize, values: Vec<f64>) -> Self {
        debug_assert_eq!(values.len(), rows * cols);
        Self::of(rows, cols, Body::Dense(values))
    }

    /// Says in which type the file holds its values.
    pub(super) fn with_dtype(self, dtype: Option<Dtype>) -> Self {
        Self { dtype, ..self }
    }

    /// Says from where the rows came.
    pub(super) fn with_row_order(self, order: Option<Permutation>) -> Result<Self, Refusal> {
        order.iter().try_for_each(|order| order.check_rows(self.rows))?;
        Ok(Self { order, ..self })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The block size of the file, if it holds blocks.
    pub fn own_block(&self) -> Option<(usize, usize)> {
        match &self.body {
            Body::Elements(_) | Body::Dense(_) => None,
            Body::Blocks { structure, .. } => Some(structure.block()),
        }
    }

    /// The element type of the file, where it says one that a [`Bsr`](crate::Bsr) has: text and `f64` do not.
    pub fn own_dtype(&self) -> Option<Dtype> {
        self.dtype
    }

    /// Where the rows came from, if they were [reordered](Self::reordered): row `i` is row `as_slice()[i]` of the
    /// original.
    pub fn row_order(&self) -> Option<&Permutation> {
        self.order.as_ref()
    }

    /// All values that the file holds, zeros too, in no particular order.
    fn values(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        match &self.body {
            Body::Elements(elements) => Box::new(elements.iter().map(|(_, _, v)| *v)),
            Body::Blocks { values, .. } | Body::Dense(values) => Box::new(values.iter().copied()),
        }
    }

    /// Number of values that are not zero. Zeros that the file lists are not counted.
    pub fn true_nnz(&self) -> usize {
        self.values().filter(|v| *v != 0.0).count()
    }

    /// Number of values that are NaN or infinite.
    pub fn not_finite(&self) -> usize {
        self.values().filter(|v| !v.is_finite()).count()
    }

    /// The first value by row and column that is NaN or infinite, with its row and column, counted from 0.
    pub fn first_not_finite(&self) -> Option<(usize, usize, f64)> {
        let mut first: Option<(usize, usize, f64)> = None;
        self.for_each(|row, col, value| {
            if !value.is_finite() && first.is_none_or(|(r, c, _)| (row, col) < (r, c)) {
                first = Some((row, col, value));
            }
        });
        first
    }

    /// The largest finite magnitude; 0 if there is none.
    pub fn largest(&self) -> f64 {
        self.values().map(f64::abs).filter(|v| v.is_finite()).fold(0.0, f64::max)
    }

    /// The matrix with every value multiplied by `factor`, for instance to fit it into the range of `f16`.
    pub fn scaled(mut self, factor: f64) -> Self {
        match &mut self.body {
            Body::Elements(elements) => elements.iter_mut().for_each(|(_, _, v)| *v *= factor),
            Body::Blocks { values, .. } | Body::Dense(values) => values.iter_mut().for_each(|v| *v *= factor),
        }
        self
    }

    /// The matrix without its values of magnitude up to `threshold`; a NaN stays. A threshold of 0 drops the zeros that
    /// a file lists, and the blocks of zeros with them.
    pub fn without_small(mut self, threshold: f64) -> Self {
        let small = |value: f64| value.abs() <= threshold;
        match &mut self.body {
            Body::Elements(elements) => elements.retain(|(_, _, v)| !small(*v)),
            Body::Dense(values) => values.iter_mut().filter(|v| small(**v)).for_each(|v| *v = 0.0),
            Body::Blocks { .. } => {
                let mut elements = self.elements();
                elements.retain(|(_, _, v)| !small(*v));
                self.body = Body::Elements(elements);
            }
        }
        self
    }

    /// The matrix with row `order.as_slice()[i]` as row `i`. What was reordered before remembers its original rows.
    ///
    /// # Errors
    /// When the order is not of as many rows.
    pub fn reordered(&self, order: &Permutation) -> Result<Self, Refusal> {
        order.check_rows(self.rows)?;
        let whole = match &self.order {
            Some(before) => before.then(order)?,
            None => order.clone(),
        };
        let body = match &self.body {
            Body::Dense(values) if self.cols > 0 => {
                let row = |&row: &u32| &values[row as usize * self.cols..][..self.cols];
                Body::Dense(order.as_slice().iter().flat_map(row).copied().collect())
            }
            _ => {
                let to = order.inverse();
                let mut elements = self.elements();
                elements.iter_mut().for_each(|(row, _, _)| *row = to.as_slice()[*row as usize]);
                // Stable: the columns of a row stay in order.
                elements.sort_by_key(|(row, _, _)| *row);
                Body::Elements(elements)
            }
        };
        Ok(Self { rows: self.rows, cols: self.cols, body, dtype: self.dtype, order: Some(whole) })
    }

    /// What [`for_each`](Self::for_each) visits, by row and column.
    fn elements(&self) -> Vec<(u32, u32, f64)> {
        let mut elements = Vec::new();
        // Sides are below 2^31.
        self.for_each(|row, col, value| elements.push((row as u32, col as u32, value)));
        elements.sort_by_key(|&(row, col, _)| (row, col));
        elements
    }

    /// Calls `visit(row, col, value)`: for elements, all that the file lists, by row and column; for a dense matrix its
    /// values that are not zero, by row and column; for blocks, their values that are not zero, by block.
    pub fn for_each(&self, mut visit: impl FnMut(usize, usize, f64)) {
        match &self.body {
            Body::Elements(elements) => {
                elements.iter().for_each(|&(row, col, value)| visit(row as usize, col as usize, value));
            }
            Body::Dense(values) => {
                for (row, line) in values.chunks_exact(self.cols.max(1)).enumerate() {
                    line.iter().enumerate().filter(|(_, v)| **v != 0.0).for_each(|(col, &v)| visit(row, col, v));
                }
            }
            Body::Blocks { structure, values } => {
                let (bm, bk) = structure.block();
                for block_row in 0..structure.block_rows() {
                    for block in structure.blocks_of(block_row) {
                        let first_col = structure.col_idx()[block] as usize * bk;
                        for (at, &value) in values[block * bm * bk..][..bm * bk].iter().enumerate() {
                            if value != 0.0 {
                                visit(block_row * bm + at / bk, first_col + at % bk, value);
                            }
                        }
                    }
                }
            }
        }
    }
}
