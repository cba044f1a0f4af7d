//! The sizes of an attention, and how its tensors lie.

use bsr_codegen::{AttentionProblem, AttentionTiles, TensorStrides};

use super::AttentionError;

/// Bits of a coordinate of TMA.
const COORDINATE_BITS: u32 = 31;

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Problems.
    pub batch: usize,
    /// Heads of Q and O.
    pub heads: usize,
    /// Heads of K and V: each serves `heads / key_heads` neighbouring heads of Q.
    pub key_heads: usize,
    /// Queries of a problem.
    pub queries: usize,
    /// Keys of a problem.
    pub keys: usize,
    /// Elements of a row of V and O, and of Q and K unless the kernel says otherwise with `d`.
    pub columns: usize,
}

/// How the rows and heads of a tensor lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeadOrder {
    /// `[batch, heads, rows, columns]`.
    #[default]
    HeadsFirst,
    /// `[batch, rows, heads, columns]`.
    RowsFirst,
}

impl HeadOrder {
    /// Elements between neighbours of a contiguous tensor.
    pub fn strides(self, heads: usize, rows: usize, columns: usize) -> TensorStrides {
        let [heads, rows, columns] = [heads, rows, columns].map(|size| size as u64);
        match self {
            Self::HeadsFirst => TensorStrides::heads_first(heads, rows, columns),
            Self::RowsFirst => TensorStrides::rows_first(heads, rows, columns),
        }
    }
}

impl Shape {
    /// The head of K and V that a head of Q reads.
    #[doc(hidden)]
    pub fn key_head(&self, head: usize) -> usize {
        head / (self.heads / self.key_heads)
    }

    /// Rows of O.
    pub fn rows(&self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// The sizes of O.
    pub(super) fn of_output(&self) -> [usize; 4] {
        [self.batch, self.heads, self.queries, self.columns]
    }

    /// Whether there is such an attention; `pack_heads` heads of Q share a tile of its kernel.
    ///
    /// # Errors
    /// [`AttentionError::Size`].
    pub fn check(&self, pack_heads: Option<u32>) -> Result<(), AttentionError> {
        let Self { heads, key_heads, .. } = *self;
        if key_heads == 0 || !heads.is_multiple_of(key_heads) {
            return Err(AttentionError::size(
                format!("{heads} heads of Q cannot share {key_heads} heads of K"),
                "each head of K and V serves the same number of neighbouring heads of Q",
                "a number of key heads that divides the heads",
            ));
        }
        if let Some(packed) = pack_heads.filter(|packed| !(heads / key_heads).is_multiple_of(*packed as usize)) {
            return Err(AttentionError::size(
                format!("{} heads that share a head of K are not tiles of {packed}", heads / key_heads),
                "a kernel with `pack_heads` computes that many neighbouring heads in a tile, which read the same K and V",
                "`pack_heads` a divisor of the heads of a group, or none",
            ));
        }
        for (what, value) in
            [("queries", self.queries), ("keys", self.keys), ("heads", heads), ("problems", self.batch)]
        {
            if value as u64 >= 1 << COORDINATE_BITS {
                return Err(AttentionError::size(
                    format!("{value} {what} are too many"),
                    format!("coordinates of a tile have {COORDINATE_BITS} bits"),
                    "several launches",
                ));
            }
        }
        Ok(())
    }

    /// Whether a kernel can compute this.
    ///
    /// # Errors
    /// As [`Shape::check`], and another number of columns.
    pub(super) fn check_tiles(&self, tiles: &AttentionTiles) -> Result<(), AttentionError> {
        self.check(tiles.packed)?;
        self.check_columns(tiles.columns)
    }

    /// Whether heads have the columns that a kernel was compiled for.
    ///
    /// # Errors
    /// [`AttentionError::Size`].
    pub(super) fn check_columns(&self, columns: u32) -> Result<(), AttentionError> {
        if self.columns != columns as usize {
            return Err(AttentionError::size(
                format!("heads of {} columns, and the kernel was compiled for {columns}", self.columns),
                "the head dimension is bn of the spec",
                format!("a kernel with bn = {}", self.columns),
            ));
        }
        Ok(())
    }

    /// What a launch is told, where Q, K, V and O lie so, K and V in so many pages if in any, with factors of these strides.
    pub(super) fn problem(&self, strides: [TensorStrides; 4], pages: usize, factors: [u32; 2]) -> AttentionProblem {
        AttentionProblem {
            batch: self.batch as u64,
            heads: self.heads as u64,
            key_heads: self.key_heads as u64,
            queries: self.queries as u64,
            keys: self.keys as u64,
            pages: pages as u64,
            strides,
            factors,
        }
    }
}
