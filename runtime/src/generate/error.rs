//! What can be wrong with a pattern.

use thiserror::Error;

use crate::BsrError;
use crate::memory::MemoryError;

/// Why a pattern was refused, and what to write.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The text names no pattern.
    #[error(
        "`{text}` is not a pattern; write random:DENSITY, topk:BLOCKS, window:FRACTION, causal or powerlaw:DENSITY, \
         for instance random:0.25"
    )]
    Unknown {
        /// The text.
        text: String,
    },
    /// A pattern without its parameter, or `causal` with one.
    #[error("`{text}`: {fact}; write {example}")]
    Parameter {
        /// The text.
        text: String,
        /// What is wrong with it.
        fact: &'static str,
        /// A right one.
        example: &'static str,
    },
    /// A parameter that is no number.
    #[error("`{text}`: `{value}` is not {wanted}; write {example}")]
    Number {
        /// The text.
        text: String,
        /// The part of it after the colon.
        value: String,
        /// What it should have been.
        wanted: &'static str,
        /// A right one.
        example: &'static str,
    },
    /// A fraction outside 0 to 1.
    #[error("{pattern}: the fraction {value} is not between 0 and 1; 0.25 stores a quarter of the blocks")]
    Fraction {
        /// The name of the pattern.
        pattern: &'static str,
        /// The fraction.
        value: f64,
    },
    /// More blocks a row than there are block columns.
    #[error(
        "topk:{count} asks for {count} blocks in a block row, but {cols} columns in blocks of {bk} make \
         {block_cols} block columns; ask for at most topk:{block_cols}, or widen the matrix"
    )]
    TopK {
        /// Blocks asked for in every block row.
        count: usize,
        /// Block columns of the matrix.
        block_cols: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Columns of a block.
        bk: usize,
    },
    /// The pattern does not fit memory.
    #[error("the pattern does not fit memory: {0}; ask for fewer blocks, or larger ones")]
    Memory(#[from] MemoryError),
    /// The shape or the number of blocks is refused by the format.
    #[error(transparent)]
    Structure(#[from] BsrError),
}

bsr_codegen::message_as_debug!(GenerateError);
