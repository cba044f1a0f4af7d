//! The sizes of a pattern on the GPU.

/// The sizes of a pattern on the GPU: what does not change with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PatternShape {
    /// Rows of the matrix, in elements.
    pub rows: usize,
    /// Columns of the matrix, in elements.
    pub cols: usize,
    /// Rows and columns of a block, in elements.
    pub block: (usize, usize),
    /// The most blocks that are ever stored.
    pub capacity: usize,
}

impl PatternShape {
    /// Rows of blocks.
    pub fn block_rows(&self) -> usize {
        self.rows.div_ceil(self.block.0.max(1))
    }

    /// Columns of blocks.
    pub fn block_cols(&self) -> usize {
        self.cols.div_ceil(self.block.1.max(1))
    }
}
