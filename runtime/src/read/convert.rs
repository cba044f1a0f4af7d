//! Why a sparse matrix cannot be had in blocks.

use bsr_codegen::Dtype;
use thiserror::Error;

use crate::BsrError;

/// Why a sparse matrix cannot be had in blocks of this size and type.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The format refuses the shape, the block or the number of blocks.
    #[error(transparent)]
    Bsr(#[from] BsrError),
    /// A finite value would become infinite, or be cut to the largest one.
    #[error(
        "{value:e} at row {row}, column {col} exceeds the largest {dtype}, {largest:e}; \
         {remedy}"
    )]
    Range {
        /// Row of the value.
        row: usize,
        /// Column of the value.
        col: usize,
        /// The value.
        value: f64,
        /// The element type asked for.
        dtype: Dtype,
        /// Its largest finite value.
        largest: f64,
        /// What would hold the value.
        remedy: &'static str,
    },
    /// A NaN or an infinity that the type does not have.
    #[error("{value} at row {row}, column {col}, which {dtype} does not have; replace it, or take bf16 or f32")]
    NotFinite {
        /// Row of the value.
        row: usize,
        /// Column of the value.
        col: usize,
        /// The value.
        value: f64,
        /// The element type asked for.
        dtype: Dtype,
    },
    /// The blocks are those of a matrix of another shape.
    #[error(
        "the matrix is {} x {}, the blocks are of a {} x {} one; find the blocks of this matrix",
        shape[0], shape[1], of[0], of[1]
    )]
    Shape {
        /// Rows and columns of the matrix.
        shape: [usize; 2],
        /// Rows and columns of the blocks' matrix.
        of: [usize; 2],
    },
    /// The blocks do not fit in memory.
    #[error(
        "{true_nnz} nonzeros fall into {nnzb} blocks of {bm} x {bk}: {nnzb} * {bm} * {bk} * {} bytes do not fit in \
         memory; choose a smaller block", dtype.bytes()
    )]
    Memory {
        /// Nonzeros of the matrix.
        true_nnz: usize,
        /// Blocks that hold them.
        nnzb: usize,
        /// Rows of a block.
        bm: usize,
        /// Columns of a block.
        bk: usize,
        /// The element type asked for.
        dtype: Dtype,
    },
}

bsr_codegen::message_as_debug!(ConvertError);
