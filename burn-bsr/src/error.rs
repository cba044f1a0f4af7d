//! What can be wrong with a block-sparse tensor or a product.

use bsr::Refusal;

/// Why a block-sparse tensor, a layer or a product was refused.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is not valid, or no blocks can be chosen.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A pattern without blocks.
    #[error("the {rows} x {cols} matrix has no stored block\n  help: store at least one")]
    Empty {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
    },
    /// Values of another number of blocks, or of blocks of another size.
    #[error("the values have the shape {found:?}, but the pattern has {} blocks of {} x {}", expected[0], expected[1], expected[2])]
    Values {
        /// The shape of the values.
        found: [usize; 3],
        /// Blocks, and their rows and columns.
        expected: [usize; 3],
    },
    /// Factors whose inner sides differ.
    #[error(
        "a dense factor of {rows} x {cols}, and the {side} {inner} elements of the block-sparse matrix\n  help: both are {inner}"
    )]
    Inner {
        /// Rows of the dense factor.
        rows: usize,
        /// Columns of the dense factor.
        cols: usize,
        /// `columns` or `features`: the summed dimension of the sparse matrix.
        side: &'static str,
        /// How many there are.
        inner: usize,
    },
    /// A bias of another number of outputs.
    #[error("the bias has {bias} elements, but the layer has {outputs} outputs")]
    Bias {
        /// Elements of the bias.
        bias: usize,
        /// Outputs of the layer.
        outputs: usize,
    },
}

/// The message, which is what a program prints whose `main` returns the error.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
