//! Block-sparse matrices whose values are Burn tensors.

use bsr::prune::{Keep, prune};
use bsr::read::Sparse;
use bsr::{Dense, Layout};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::{Error, Pattern, dense};

/// A matrix of which only some blocks are stored: a pattern and a tensor with the values of the blocks.
#[derive(Clone, Debug)]
pub struct BsrTensor<B: Backend> {
    values: Tensor<B, 3>,
    pattern: Pattern,
}

impl<B: Backend> BsrTensor<B> {
    /// A matrix of a pattern and values: blocks x rows x columns, the blocks in the order of the pattern. Values beyond the edge
    /// of the matrix must be zero.
    ///
    /// # Errors
    /// [`Error::Values`] for another shape.
    pub fn new(values: Tensor<B, 3>, pattern: Pattern) -> Result<Self, Error> {
        let (found, expected) = (values.dims(), pattern.values_shape());
        if found != expected {
            return Err(Error::Values { found, expected });
        }
        Ok(Self { values, pattern })
    }

    /// The blocks of a dense matrix that have the largest Frobenius norms.
    ///
    /// # Errors
    /// [`Error::Refused`] for a block size or a number of blocks that does not fit the matrix, or values without an order.
    pub fn from_dense(matrix: Tensor<B, 2>, block: (usize, usize), keep: Keep) -> Result<Self, Error> {
        let [rows, cols] = matrix.dims();
        let numbers: Vec<f32> = matrix.to_data().iter::<f32>().collect();
        let host = Dense::from_fn(rows, cols, Layout::RowMajor, |row, col| numbers[row * cols + col]);
        let sparse = Sparse::from_dense(&host)?;
        let pattern = Pattern::new(prune(&sparse, block, keep)?.into_structure())?;
        Ok(Self { values: dense::blocks(matrix, &pattern), pattern })
    }

    /// The values of the stored blocks.
    pub fn values(&self) -> &Tensor<B, 3> {
        &self.values
    }

    /// The positions of the blocks.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Values and pattern.
    pub fn into_parts(self) -> (Tensor<B, 3>, Pattern) {
        (self.values, self.pattern)
    }

    /// The dense matrix, with zeros in place of blocks that are not stored.
    pub fn to_dense(&self) -> Tensor<B, 2> {
        dense::whole(self.values.clone(), &self.pattern)
    }
}
