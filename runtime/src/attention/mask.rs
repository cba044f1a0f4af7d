//! Which blocks of Q K^T are computed, and in which of them scores are.

use super::AttentionError;

/// The stored blocks of one pattern, row of blocks by row of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockList {
    /// Where each row of blocks begins in `indices`, then its end: one more than there are rows.
    pub indptr: Vec<u32>,
    /// The block column of each stored block, ascending within a row.
    pub indices: Vec<u32>,
    /// Whether the score of the spec is computed in it: one for each block.
    pub partial: Vec<bool>,
}

/// Which heads have which pattern, or which part of a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// One pattern for all.
    #[default]
    All,
    /// One for each head, the same in every problem.
    ByHead,
    /// One for each problem, the same in every head.
    ByProblem,
    /// One for each head of each problem, the heads of a problem side by side.
    ByBoth,
}

impl Sharing {
    /// Patterns that so many problems and heads need.
    pub fn patterns(self, batch: usize, heads: usize) -> usize {
        match self {
            Self::All => 1,
            Self::ByHead => heads,
            Self::ByProblem => batch,
            Self::ByBoth => batch * heads,
        }
    }
}

/// Which blocks of Q K^T are computed.
///
/// ```
/// use bsr_runtime::attention::{Coverage, Mask};
///
/// let causal = Mask::causal(300, 300, (128, 128))?;
/// assert_eq!(causal.stored(), 6);
/// # Ok::<(), bsr_runtime::attention::AttentionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mask {
    queries: usize,
    keys: usize,
    block: (usize, usize),
    sharing: Sharing,
    lists: Vec<BlockList>,
}

impl Mask {
    /// A mask of these patterns: `queries x keys` pairs in blocks of `block`.
    ///
    /// # Errors
    /// [`AttentionError::Mask`] with the first fault: a block beyond the edge, blocks out of order or twice, rows that do not
    /// add up.
    pub fn new(
        (queries, keys): (usize, usize),
        block: (usize, usize),
        sharing: Sharing,
        lists: Vec<BlockList>,
    ) -> Result<Self, AttentionError> {
        let mask = Self { queries, keys, block, sharing, lists };
        mask.check()?;
        Ok(mask)
    }

    fn check(&self) -> Result<(), AttentionError> {
        let (bm, bk) = self.block;
        if bm == 0 || bk == 0 {
            return Err(AttentionError::mask(format!("blocks of {bm} x {bk}"), "blocks of at least 1 x 1"));
        }
        let (rows, columns) = self.blocks();
        for (number, list) in self.lists.iter().enumerate() {
            let place = if self.lists.len() == 1 { String::new() } else { format!(" in pattern {number}") };
            let BlockList { indptr, indices, partial } = list;
            if indptr.len() != rows + 1 || indptr.first() != Some(&0) || indptr.last() != Some(&(indices.len() as u32))
            {
                let fact = format!(
                    "{} row starts from {:?} to {:?}{place}; {} queries in blocks of {bm} are {rows} rows, and there are {} \
                     blocks",
                    indptr.len(),
                    indptr.first(),
                    indptr.last(),
                    self.queries,
                    indices.len()
                );
                return Err(AttentionError::mask(fact, "a start for every row, from 0, then the number of blocks"));
            }
            if partial.len() != indices.len() {
                let fact = format!("{} flags for {} blocks{place}", partial.len(), indices.len());
                return Err(AttentionError::mask(fact, "one flag for each block"));
            }
            for row in 0..rows {
                let (from, to) = (indptr[row] as usize, indptr[row + 1] as usize);
                if from > to || to > indices.len() {
                    let fact = format!("row {row} runs from {from} to {to} of {} blocks{place}", indices.len());
                    return Err(AttentionError::mask(fact, "row starts that ascend"));
                }
                if let Some(pair) = indices[from..to].windows(2).find(|pair| pair[0] >= pair[1]) {
                    let fact = format!("block column {} follows {} in row {row}{place}", pair[1], pair[0]);
                    return Err(AttentionError::mask(fact, "block columns that ascend within a row"));
                }
                if let Some(column) = indices[from..to].last().filter(|column| **column as usize >= columns) {
                    let fact = format!(
                        "block column {column} in row {row}{place}; {} keys in blocks of {bk} are {columns} columns",
                        self.keys
                    );
                    return Err(AttentionError::mask(fact, "block columns below that number"));
                }
            }
        }
        Ok(())
    }

    /// Queries and keys.
    pub fn sizes(&self) -> (usize, usize) {
        (self.queries, self.keys)
    }

    /// Queries and keys of a block.
    pub fn block(&self) -> (usize, usize) {
        self.block
    }

    /// Rows and columns of blocks.
    pub fn blocks(&self) -> (usize, usize) {
        (self.queries.div_ceil(self.block.0), self.keys.div_ceil(self.block.1))
    }

    /// Which heads have which pattern.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The patterns.
    pub fn lists(&self) -> &[BlockList] {
        &self.lists
    }

    /// The patterns one below the other: row pointers, block columns, and a byte for each block that is not 0 where it is
    /// partial.
    pub(super) fn stacked(&self) -> (Vec<u32>, Vec<u32>, Vec<u8>) {
        let (mut row_ptr, mut columns, mut partial) = (vec![0], vec![], vec![]);
        for list in &self.lists {
            let before = columns.len() as u32;
            row_ptr.extend(list.indptr[1..].iter().map(|end| before + end));
            columns.extend(&list.indices);
            partial.extend(list.partial.iter().map(|partial| u8::from(*partial)));
        }
        (row_ptr, columns, partial)
    }

    /// The same blocks as keys see them: `keys x queries` pairs, the queries of each key in ascending order.
    #[must_use]
    pub fn transposed(&self) -> Self {
        let (rows, columns) = self.blocks();
        let lists = self.lists.iter().map(|list| list.transposed(rows, columns)).collect();
        let (bm, bk) = self.block;
        Self { queries: self.keys, keys: self.queries, block: (bk, bm), sharing: self.sharing, lists }
    }

    /// Stored blocks of all patterns.
    pub fn stored(&self) -> usize {
        self.lists.iter().map(|list| list.indices.len()).sum()
    }

    /// Patterns that so many problems and heads need.
    pub fn wanted(&self, batch: usize, heads: usize) -> usize {
        self.sharing.patterns(batch, heads)
    }

    /// The number of the pattern of a head.
    pub fn pattern(&self, problem: usize, head: usize, heads: usize) -> usize {
        match self.sharing {
            Sharing::All => 0,
            Sharing::ByHead => head,
            Sharing::ByProblem => problem,
            Sharing::ByBoth => problem * heads + head,
        }
    }

    /// Pairs of a query and a key in the stored blocks of all heads, those beyond the edges left out: what is executed.
    pub fn pairs(&self, batch: usize, heads: usize) -> u64 {
        let of_list = |list: &BlockList| -> u64 {
            let (bm, bk) = self.block;
            let rows = list.indptr.windows(2).enumerate();
            rows.map(|(row, ends)| {
                let height = bm.min(self.queries - row * bm) as u64;
                let columns = &list.indices[ends[0] as usize..ends[1] as usize];
                height * columns.iter().map(|c| bk.min(self.keys - *c as usize * bk) as u64).sum::<u64>()
            })
            .sum()
        };
        let times = batch * heads / self.wanted(batch, heads).max(1);
        self.lists.iter().map(of_list).sum::<u64>() * times as u64
    }
}

impl BlockList {
    /// The blocks column by column, of so many rows and columns.
    fn transposed(&self, rows: usize, columns: usize) -> Self {
        let mut by_column: Vec<Vec<(u32, bool)>> = vec![vec![]; columns];
        for row in 0..rows {
            self.row(row).for_each(|(column, partial)| by_column[column as usize].push((row as u32, partial)));
        }
        let mut indptr = vec![0];
        let mut end = 0;
        indptr.extend(by_column.iter().map(|column| {
            end += column.len() as u32;
            end
        }));
        let (indices, partial) = by_column.into_iter().flatten().unzip();
        Self { indptr, indices, partial }
    }

    /// The stored blocks of a row: column, and whether scores are computed.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, bool)> + '_ {
        let range = self.indptr[row] as usize..self.indptr[row + 1] as usize;
        self.indices[range.clone()].iter().copied().zip(self.partial[range].iter().copied())
    }
}
