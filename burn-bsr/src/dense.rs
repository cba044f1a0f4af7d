//! The products with dense matrices that have zeros in place of blocks that are not stored.

use burn::tensor::backend::Backend;
use burn::tensor::{IndexingUpdateOp, Tensor};

use crate::Pattern;

/// The dense matrix.
pub(crate) fn whole<B: Backend>(values: Tensor<B, 3>, pattern: &Pattern) -> Tensor<B, 2> {
    let structure = pattern.structure();
    let ((bm, bk), [rows, cols]) = (structure.block(), pattern.shape());
    let (high, wide) = (structure.block_rows(), structure.block_cols());
    let device = values.device();
    let zeros = Tensor::<B, 3>::zeros([high * wide, bm, bk], (&device, values.dtype()));
    let blocks = zeros.select_assign(0, pattern.places(&device), values, IndexingUpdateOp::Add);
    let padded = blocks.reshape([high, wide, bm, bk]).swap_dims(1, 2).reshape([high * bm, wide * bk]);
    padded.slice([0..rows, 0..cols])
}

/// The values of a dense matrix in the blocks of a pattern, with zeros beyond its edge.
pub(crate) fn blocks<B: Backend>(matrix: Tensor<B, 2>, pattern: &Pattern) -> Tensor<B, 3> {
    let structure = pattern.structure();
    let ((bm, bk), [rows, cols]) = (structure.block(), pattern.shape());
    let (high, wide) = (structure.block_rows(), structure.block_cols());
    let device = matrix.device();
    let padded = if rows == high * bm && cols == wide * bk {
        matrix
    } else {
        let zeros = Tensor::<B, 2>::zeros([high * bm, wide * bk], (&device, matrix.dtype()));
        zeros.slice_assign([0..rows, 0..cols], matrix)
    };
    let blocks = padded.reshape([high, bm, wide, bk]).swap_dims(1, 2).reshape([high * wide, bm, bk]);
    blocks.select(0, pattern.places(&device))
}

/// `x W^T`, or `x W`.
pub(crate) fn linear<B: Backend>(
    x: Tensor<B, 2>,
    values: Tensor<B, 3>,
    pattern: &Pattern,
    transpose: bool,
) -> Tensor<B, 2> {
    let whole = whole(values, pattern);
    x.matmul(if transpose { whole } else { whole.transpose() })
}

/// The stored blocks of `y^T x`.
pub(crate) fn sddmm<B: Backend>(y: Tensor<B, 2>, x: Tensor<B, 2>, pattern: &Pattern) -> Tensor<B, 3> {
    blocks(y.transpose().matmul(x), pattern)
}
