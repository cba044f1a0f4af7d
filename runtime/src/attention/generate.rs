//! Masks that are made: by a rule, of pairs, of scores.

use std::ops::Range;

use rand::RngExt;

use super::{AttentionError, BlockList, Mask, Sharing};
use crate::Structure;
use crate::random::Streams;
use crate::read::memory_available;

/// How much of a block is attended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coverage {
    /// No pair: the block is not stored.
    None,
    /// Some pairs, which the score of the spec tells from others.
    Partial,
    /// Every pair.
    Full,
}

impl Coverage {
    fn of(all: bool, any: bool) -> Self {
        match (all, any) {
            (true, _) => Self::Full,
            (_, true) => Self::Partial,
            _ => Self::None,
        }
    }
}

/// The most blocks that a rule is asked for: so many do lists of 32 bits count.
const MOST_BLOCKS: u128 = u32::MAX as u128;

/// Makes sure, where a list of blocks is about to grow by a large piece, that this machine has the memory.
fn has_room(indices: &Vec<u32>, columns: usize) -> Result<(), AttentionError> {
    let grown = indices.len() + columns;
    if grown <= indices.capacity() || grown < 1 << 24 {
        return Ok(());
    }
    // Both lists, twice as long as they are, beside those that are copied.
    let bytes = 2 * grown as u64 * (size_of::<u32>() + size_of::<bool>()) as u64;
    match memory_available() {
        Some(available) if bytes > available => {
            let fact = format!("{grown} stored blocks take {bytes} bytes of lists, and {available} are available");
            Err(AttentionError::mask(fact, "larger blocks, 128 x 128 for instance, or a mask with fewer of them"))
        }
        _ => Ok(()),
    }
}

impl Mask {
    /// One pattern for all heads: `rule` is asked for every block, by its queries and keys.
    ///
    /// # Errors
    /// [`AttentionError::Mask`] for blocks without queries or keys, for more blocks than lists count in 32 bits, stored or not,
    /// and for lists that this machine has no memory for.
    pub fn by_rule(
        (queries, keys): (usize, usize),
        (bm, bk): (usize, usize),
        mut rule: impl FnMut(Range<usize>, Range<usize>) -> Coverage,
    ) -> Result<Self, AttentionError> {
        let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
        if bm > 0 && bk > 0 {
            let (rows, columns) = (queries.div_ceil(bm), keys.div_ceil(bk));
            if rows as u128 * columns as u128 > MOST_BLOCKS {
                let fact = format!(
                    "{queries} x {keys} in blocks of {bm} x {bk} are {rows} x {columns} blocks, above 2^32 - 1"
                );
                return Err(AttentionError::mask(fact, "larger blocks, 128 x 128 for instance"));
            }
            for row in (0..queries).step_by(bm) {
                has_room(&list.indices, columns)?;
                for column in (0..keys).step_by(bk) {
                    let coverage = rule(row..(row + bm).min(queries), column..(column + bk).min(keys));
                    if coverage != Coverage::None {
                        list.indices.push((column / bk) as u32);
                        list.partial.push(coverage == Coverage::Partial);
                    }
                }
                list.indptr.push(list.indices.len() as u32);
            }
        }
        Self::new((queries, keys), (bm, bk), Sharing::All, vec![list])
    }

    /// The stored blocks of a block-sparse matrix of queries by keys, the same for all heads; `partial` is asked for each, by its
    /// row and column of blocks.
    ///
    /// # Errors
    /// None for a structure that was validated: block columns ascend in it.
    #[doc(hidden)]
    pub fn of_structure(
        structure: &Structure,
        mut partial: impl FnMut(usize, usize) -> bool,
    ) -> Result<Self, AttentionError> {
        let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
        for row in 0..structure.block_rows() {
            for column in &structure.col_idx()[structure.blocks_of(row)] {
                list.indices.push(column.cast_unsigned());
                list.partial.push(partial(row, column.cast_unsigned() as usize));
            }
            list.indptr.push(list.indices.len() as u32);
        }
        Self::new((structure.rows(), structure.cols()), structure.block(), Sharing::All, vec![list])
    }

    /// One pattern for all heads, where each query attends to a range of keys: blocks with a pair that counts, partial where
    /// some pair does not. It takes as long as there are queries and blocks.
    ///
    /// # Errors
    /// As [`Mask::by_rule`], and [`AttentionError::Mask`] for a range beyond the keys.
    pub fn by_ranges(keys: usize, (bm, bk): (usize, usize), ranges: &[Range<usize>]) -> Result<Self, AttentionError> {
        if let Some(query) = ranges.iter().position(|range| range.end > keys) {
            let fact = format!("query {query} attends to keys {:?} of {keys}", ranges[query]);
            return Err(AttentionError::mask(fact, "ranges that end with the last key"));
        }
        let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
        if bm > 0 && bk > 0 {
            for of_row in ranges.chunks(bm) {
                has_room(&list.indices, keys.div_ceil(bk))?;
                add_row(&mut list, of_row, keys, bk);
            }
        }
        Self::new((ranges.len(), keys), (bm, bk), Sharing::All, vec![list])
    }

    /// All blocks.
    ///
    /// # Errors
    /// As [`Mask::by_rule`].
    pub fn full(sizes: (usize, usize), block: (usize, usize)) -> Result<Self, AttentionError> {
        Self::by_rule(sizes, block, |_, _| Coverage::Full)
    }

    /// Keys up to the query: `i >= j`. Blocks on the diagonal are partial.
    ///
    /// # Errors
    /// As [`Mask::by_rule`].
    pub fn causal(queries: usize, keys: usize, block: (usize, usize)) -> Result<Self, AttentionError> {
        Self::by_rule((queries, keys), block, |i, j| Coverage::of(i.start >= j.end - 1, i.end > j.start))
    }

    /// Keys within `before` places before the query and `after` places after it.
    ///
    /// # Errors
    /// As [`Mask::by_rule`].
    pub fn window(
        sizes: (usize, usize),
        block: (usize, usize),
        before: usize,
        after: usize,
    ) -> Result<Self, AttentionError> {
        Self::by_rule(sizes, block, |i, j| {
            let all = j.start + before >= i.end - 1 && j.end - 1 <= i.start + after;
            let any = j.end + before > i.start && j.start < i.end + after;
            Coverage::of(all, any)
        })
    }

    /// Blocks within `blocks` block columns of the diagonal on either side, whole.
    ///
    /// # Errors
    /// As [`Mask::by_rule`].
    pub fn block_window(sizes: (usize, usize), block: (usize, usize), blocks: usize) -> Result<Self, AttentionError> {
        Self::by_rule(sizes, block, |i, j| {
            let near = (i.start / block.0).abs_diff(j.start / block.1) <= blocks;
            Coverage::of(near, near)
        })
    }

    /// Blocks on and below the diagonal, whole.
    ///
    /// # Errors
    /// As [`Mask::by_rule`].
    pub fn lower_triangle(sizes: (usize, usize), block: (usize, usize)) -> Result<Self, AttentionError> {
        Self::by_rule(sizes, block, |i, j| {
            let below = i.start / block.0 >= j.start / block.1;
            Coverage::of(below, below)
        })
    }

    /// Blocks within `local` block columns of the diagonal, and every `stride`-th block column, whole.
    ///
    /// # Errors
    /// As [`Mask::by_rule`].
    pub fn strided(
        sizes: (usize, usize),
        block: (usize, usize),
        local: usize,
        stride: usize,
    ) -> Result<Self, AttentionError> {
        Self::by_rule(sizes, block, |i, j| {
            let (row, column) = (i.start / block.0, j.start / block.1);
            let stored = row.abs_diff(column) <= local || (column + 1).is_multiple_of(stride.max(1));
            Coverage::of(stored, stored)
        })
    }

    /// BigBird: `local` block columns on either side of the diagonal, the first `global` rows and columns of blocks, and in
    /// every row `random` further blocks.
    ///
    /// # Errors
    /// As [`Mask::by_rule`].
    pub fn big_bird(
        sizes: (usize, usize),
        block: (usize, usize),
        [local, global, random]: [usize; 3],
        seed: u64,
    ) -> Result<Self, AttentionError> {
        let columns = sizes.1.div_ceil(block.1.max(1));
        let streams = Streams::new(seed, b"big bird");
        let mut drawn = (usize::MAX, vec![]);
        Self::by_rule(sizes, block, |i, j| {
            let (row, column) = (i.start / block.0, j.start / block.1);
            if drawn.0 != row {
                let mut stream = streams.get(row);
                drawn = (row, (0..random).map(|_| stream.random_range(0..columns)).collect());
            }
            let fixed = row.abs_diff(column) <= local || row < global || column < global;
            let stored = fixed || drawn.1.contains(&column);
            Coverage::of(stored, stored)
        })
    }

    /// Each block with a probability of `density`, and those of the diagonal, whole.
    ///
    /// # Errors
    /// As [`Mask::by_rule`].
    pub fn random(
        sizes: (usize, usize),
        block: (usize, usize),
        density: f64,
        seed: u64,
    ) -> Result<Self, AttentionError> {
        let streams = Streams::new(seed, b"attended");
        let columns = sizes.1.div_ceil(block.1.max(1));
        let mut row = (usize::MAX, streams.get(0));
        Self::by_rule(sizes, block, |i, j| {
            let (number, column) = (i.start / block.0, j.start / block.1);
            if row.0 != number {
                row = (number, streams.get(number));
            }
            let drawn = row.1.random::<f64>() < density;
            let diagonal = i.start < j.end && j.start < i.end || column + 1 == columns && i.start >= sizes.1;
            Coverage::of(drawn || diagonal, drawn || diagonal)
        })
    }

    /// Blocks with a pair that is attended to, of `queries x keys` booleans row by row. Those whose pairs are not all attended
    /// to are partial; the score must tell the pairs apart.
    ///
    /// # Errors
    /// [`AttentionError::Mask`] for another number of booleans.
    pub fn from_pairs(
        (queries, keys): (usize, usize),
        block: (usize, usize),
        pairs: &[bool],
    ) -> Result<Self, AttentionError> {
        if pairs.len() != queries * keys {
            let fact = format!("{} booleans for {queries} x {keys} pairs", pairs.len());
            return Err(AttentionError::mask(fact, "one for each query and key, row by row"));
        }
        Self::by_rule((queries, keys), block, |i, j| {
            let mut of_block = i.flat_map(|row| pairs[row * keys + j.start..row * keys + j.end].iter());
            match of_block.next() {
                None => Coverage::None,
                Some(first) if of_block.all(|pair| pair == first) => Coverage::of(*first, *first),
                Some(_) => Coverage::Partial,
            }
        })
    }

    /// The `count` blocks of each row with the greatest of `scores`, one for each block row by row; of equal ones the first.
    ///
    /// # Errors
    /// [`AttentionError::Mask`] for another number of scores.
    pub fn top_k(
        sizes: (usize, usize),
        block: (usize, usize),
        scores: &[f32],
        count: usize,
    ) -> Result<Self, AttentionError> {
        let (rows, columns) = (sizes.0.div_ceil(block.0.max(1)), sizes.1.div_ceil(block.1.max(1)));
        if scores.len() != rows * columns {
            let fact = format!("{} scores for {rows} x {columns} blocks", scores.len());
            return Err(AttentionError::mask(fact, "one for each block, row by row"));
        }
        let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
        for row in 0..rows {
            let of_row = &scores[row * columns..(row + 1) * columns];
            let mut order: Vec<u32> = (0..columns as u32).collect();
            order.sort_by(|a, b| of_row[*b as usize].total_cmp(&of_row[*a as usize]));
            order.truncate(count);
            order.sort_unstable();
            list.partial.extend(order.iter().map(|_| false));
            list.indices.extend(order);
            list.indptr.push(list.indices.len() as u32);
        }
        Self::new(sizes, block, Sharing::All, vec![list])
    }
}

/// Adds the row of blocks whose queries have these ranges of keys.
fn add_row(list: &mut BlockList, ranges: &[Range<usize>], keys: usize, bk: usize) {
    let stored = |range: &Range<usize>| range.start / bk..range.end.div_ceil(bk);
    // The last block is whole where the range ends with the keys.
    let whole = |range: &Range<usize>| {
        range.start.div_ceil(bk)..if range.end == keys { keys.div_ceil(bk) } else { range.end / bk }
    };
    let present = || ranges.iter().filter(|range| !range.is_empty());
    let Some(first) = present().map(|range| stored(range).start).min() else {
        list.indptr.push(list.indices.len() as u32);
        return;
    };
    let end = present().map(|range| stored(range).end).max().unwrap_or(first);
    // How many queries begin and end to have a block, and to have all of it.
    let mut changes = vec![[0_i64; 2]; end - first + 1];
    for range in present() {
        for (of, columns) in [stored(range), whole(range)].into_iter().enumerate().filter(|(_, of)| !of.is_empty()) {
            changes[columns.start - first][of] += 1;
            changes[columns.end - first][of] -= 1;
        }
    }
    let mut now = [0; 2];
    for (at, change) in changes.iter().enumerate() {
        now = [now[0] + change[0], now[1] + change[1]];
        if now[0] > 0 {
            list.indices.push((first + at) as u32);
            list.partial.push(now[1] < ranges.len() as i64);
        }
    }
    list.indptr.push(list.indices.len() as u32);
}
