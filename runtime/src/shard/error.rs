//! Why a matrix is not divided, or shards are not put together.

use crate::BsrError;

/// Why a matrix is not divided among ranks, or shards are not put together.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// No rank.
    #[error("a matrix cannot be divided among 0 ranks\n  help: give the number of GPUs")]
    NoRanks,
    /// More ranks than there are places to cut.
    #[error(
        "{ranks} ranks share {lines} whole block rows or columns, so that {} of them would own nothing\n  help: use at most {lines} ranks, or smaller blocks",
        ranks - lines
    )]
    TooMany {
        /// Ranks.
        ranks: usize,
        /// Block rows, block columns, or groups of both that can only be divided together.
        lines: usize,
    },
    /// Two layers that do not follow one another.
    #[error("the first layer has {outputs} outputs and the second {inputs} inputs\n  help: both numbers are equal")]
    Hidden {
        /// Rows of the first matrix.
        outputs: usize,
        /// Columns of the second.
        inputs: usize,
    },
    /// Another number of shards than ranks.
    #[error("{shards} shards of a matrix that {ranks} ranks own\n  help: give the shards of all ranks, in their order")]
    Count {
        /// Shards given.
        shards: usize,
        /// Ranks.
        ranks: usize,
    },
    /// A shard that is not what its rank owns.
    #[error(
        "the shard of rank {rank} is {rows} x {cols} in blocks of {bm} x {bk}, and this rank owns {owned} {side} of a matrix with blocks of {} x {}\n  help: give the shards in the order of the ranks",
        block.0, block.1
    )]
    Shape {
        /// The rank.
        rank: usize,
        /// Rows of the shard.
        rows: usize,
        /// Columns of the shard.
        cols: usize,
        /// Rows of its blocks.
        bm: usize,
        /// Columns of its blocks.
        bk: usize,
        /// Rows or columns that the rank owns.
        owned: usize,
        /// `rows` or `columns`.
        side: &'static str,
        /// The block of the first shard.
        block: (usize, usize),
    },
    /// The whole is not a matrix.
    #[error(transparent)]
    Matrix(#[from] BsrError),
}

bsr_codegen::message_as_debug!(ShardError);
