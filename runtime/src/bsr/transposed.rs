//! The second index of a block-sparse matrix: its blocks by block column.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Where the blocks of each block column are: the index of the transposed matrix, whose blocks stay where they are
/// stored.
///
/// The blocks of block column `j` are the entries `row_ptr[j]..row_ptr[j + 1]` of the other two lists, ascending by
/// block row: entry `p` is stored block number `block_idx[p]`, which stands in block row `col_idx[p]`. The lists are
/// named as those of the transposed matrix, of which a block column is a block row. They take
/// `8 * (block_cols + 1 + nnzb)` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transposed {
    row_ptr: Vec<i64>,
    col_idx: Vec<i32>,
    block_idx: Vec<i32>,
}

impl Transposed {
    /// That of blocks in so many columns, of which `row_ptr` and `col_idx` say where they are.
    pub(super) fn new(row_ptr: &[i64], col_idx: &[i32], block_cols: usize) -> Self {
        // Columns are inside the matrix: a structure is valid by construction. Blocks are fewer than 2^31: the caller has counted.
        let mut starts = vec![0_i64; block_cols + 1];
        for column in col_idx {
            starts[*column as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let (mut rows, mut block_idx) = (vec![0; col_idx.len()], vec![0; col_idx.len()]);
        for (block_row, ends) in row_ptr.windows(2).enumerate() {
            for block in ends[0]..ends[1] {
                let place = &mut next[col_idx[block as usize] as usize];
                rows[*place as usize] = block_row as i32;
                block_idx[*place as usize] = block as i32;
                *place += 1;
            }
        }
        Self { row_ptr: starts, col_idx: rows, block_idx }
    }

    /// Where each block column starts in the other lists, and the number of stored blocks: one more entry than there
    /// are block columns.
    pub fn row_ptr(&self) -> &[i64] {
        &self.row_ptr
    }

    /// The block row of each block, ascending within a block column.
    pub fn col_idx(&self) -> &[i32] {
        &self.col_idx
    }

    /// The number of each of these blocks in storage.
    pub fn block_idx(&self) -> &[i32] {
        &self.block_idx
    }
}

/// The index of a structure, made when it is first asked for. It follows from the structure, so it tells no two of
/// them apart.
#[derive(Clone, Default)]
pub(super) struct Cached(OnceLock<Arc<Transposed>>);

impl Cached {
    pub(super) fn get(&self, make: impl FnOnce() -> Transposed) -> &Transposed {
        self.0.get_or_init(|| Arc::new(make()))
    }
}

impl fmt::Debug for Cached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "made" } else { "not made" })
    }
}

impl PartialEq for Cached {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Cached {}

impl Hash for Cached {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
