//! The block index of the sparse operand as a kernel reads it: by block rows as it is stored, or by block columns.

use bsr_codegen::Plan;

use crate::Structure;

/// The rows of the sparse operand as a kernel reads it, and where the blocks of each are.
#[derive(Clone, Copy, Debug)]
pub struct BlockIndex<'a> {
    /// Rows as read, in elements.
    pub rows: usize,
    /// Columns as read, in elements.
    pub cols: usize,
    /// Rows and columns of a block as read, in elements.
    pub block: (usize, usize),
    /// Where the blocks of each row of blocks start in `col_idx`.
    pub row_ptr: &'a [i64],
    /// The column of blocks of each block.
    pub col_idx: &'a [i32],
    /// The number of each block among the stored ones, where that is not its place here.
    pub block_idx: Option<&'a [i32]>,
}

impl<'a> BlockIndex<'a> {
    /// The index of a structure as the kernels of `plan` read it. The transposed index is made if they need it.
    pub fn new(plan: &Plan, structure: &'a Structure) -> Self {
        if plan.reads_block_columns() { Self::by_columns(structure) } else { Self::from(structure) }
    }

    /// That of the transposed matrix, whose rows are the block columns that are stored. Launches are refused for 2^31 blocks and
    /// more.
    pub fn by_columns(structure: &'a Structure) -> Self {
        let ((bm, bk), index) = (structure.block(), structure.by_columns());
        Self {
            rows: structure.cols(),
            cols: structure.rows(),
            block: (bk, bm),
            row_ptr: index.row_ptr(),
            col_idx: index.col_idx(),
            block_idx: Some(index.block_idx()),
        }
    }

    /// The most products that an element of the result sums.
    pub fn longest_sum(&self) -> usize {
        let longest = self.row_ptr.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
        (longest as usize * self.block.1).min(self.cols)
    }
}

/// As it is stored.
impl<'a> From<&'a Structure> for BlockIndex<'a> {
    fn from(structure: &'a Structure) -> Self {
        Self {
            rows: structure.rows(),
            cols: structure.cols(),
            block: structure.block(),
            row_ptr: structure.row_ptr(),
            col_idx: structure.col_idx(),
            block_idx: None,
        }
    }
}
