//! Sequences of different lengths, packed one behind the other along the rows.

use std::ops::Range;

use super::{AttentionError, HostVector, Mask};

/// The most keys that are numbered without rounding in f32, in which a score compares them.
const MOST_KEYS: usize = 1 << 24;

/// Sequences of different lengths, packed one behind the other: Q has the queries of all of them as its rows, K and V the keys,
/// and queries attend to keys of their own sequence. One launch computes all of them, without padding.
///
/// A work tile has rows of several sequences where one ends within it. Which keys count for a query is one range, and a kernel
/// reads its ends as two vectors of its score, in blocks that some query of theirs has a part of:
///
/// ```text
/// fn attend(.., scale: f32, first_key: Rows<f32>, end_key: Rows<f32>) -> Dense<bf16> {
///     if j >= first_key { if j < end_key { s * scale } else { -inf } } else { -inf }
/// }
/// ```
///
/// ```
/// use bsr_runtime::attention::Sequences;
///
/// // Two of 300 and 20 queries, and of 300 and 500 keys.
/// let packed = Sequences::new(&[0, 300, 320], &[0, 300, 800], (320, 800))?.causal();
/// let (mask, [first, end]) = (packed.mask((128, 128))?, packed.vectors());
/// assert_eq!((mask.stored(), first.len(), end.len()), (10, 320, 320));
/// # Ok::<(), bsr_runtime::attention::AttentionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sequences {
    queries: Vec<usize>,
    keys: Vec<usize>,
    sizes: (usize, usize),
    before: Option<usize>,
    after: Option<usize>,
}

impl Sequences {
    /// Sequences that begin at these rows of Q and of K, and where the last one ends: one more than there are sequences,
    /// `cu_seqlens` of FlashAttention. `sizes` are the rows of Q and of K; those behind the last sequence are padding.
    ///
    /// # Errors
    /// [`AttentionError::Size`] for starts that descend, do not begin with 0 or are beyond the rows, for another number of them
    /// for queries than for keys, and for more than 2^24 keys.
    pub fn new(queries: &[usize], keys: &[usize], sizes: (usize, usize)) -> Result<Self, AttentionError> {
        for (what, starts, rows) in [("queries", queries, sizes.0), ("keys", keys, sizes.1)] {
            check_starts(what, starts, rows)?;
        }
        if queries.len() != keys.len() {
            return Err(AttentionError::size(
                format!("{} sequences of queries and {} of keys", queries.len() - 1, keys.len() - 1),
                "each sequence has queries and keys, which may be none",
                "as many starts of queries as of keys",
            ));
        }
        if sizes.1 > MOST_KEYS {
            return Err(AttentionError::size(
                format!("{} keys are too many", sizes.1),
                format!("a score numbers them in f32, which has every integer up to {MOST_KEYS}"),
                format!("several launches of at most {MOST_KEYS} keys"),
            ));
        }
        Ok(Self { queries: queries.to_vec(), keys: keys.to_vec(), sizes, before: None, after: None })
    }

    /// The same, where a query attends to keys up to its own place. The last query of a sequence is at the place of its last key,
    /// as in FlashAttention: of 3 queries and 5 keys the first query attends to 3 keys. Where there are more queries than keys,
    /// the first ones have no key.
    #[must_use]
    pub fn causal(self) -> Self {
        Self { after: Some(0), ..self }
    }

    /// The same, where a query attends to keys at most so many places before and after its own, which is as of
    /// [`Sequences::causal`]; none is no limit.
    #[must_use]
    pub fn window(self, before: Option<usize>, after: Option<usize>) -> Self {
        Self { before, after, ..self }
    }

    /// The keys of each query, as numbers of rows of K; an empty range at 0 of a query without any.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges = vec![0..0; self.sizes.0];
        for (queries, keys) in self.queries.windows(2).zip(self.keys.windows(2)) {
            let (first, end) = (keys[0], keys[1]);
            for (query, range) in (queries[0]..).zip(&mut ranges[queries[0]..queries[1]]) {
                // The place among the keys, which are counted from `queries[1]` on, so that it is not negative.
                let place = query + end;
                let from = self
                    .before
                    .map_or(first, |before| place.saturating_sub(before.saturating_add(queries[1])).max(first));
                let to =
                    self.after.map_or(end, |after| after.saturating_add(place + 1).saturating_sub(queries[1]).min(end));
                if from < to {
                    *range = from..to;
                }
            }
        }
        ranges
    }

    /// The blocks of queries by keys that hold a pair; those in which not every pair counts are partial.
    ///
    /// # Errors
    /// As [`Mask::by_ranges`].
    pub fn mask(&self, block: (usize, usize)) -> Result<Mask, AttentionError> {
        Mask::by_ranges(self.sizes.1, block, &self.ranges())
    }

    /// The first key of each query, and the one behind its last: `Rows` vectors of f32.
    pub fn vectors(&self) -> [HostVector; 2] {
        let ranges = self.ranges();
        let of = |end: fn(&Range<usize>) -> usize| -> Vec<f32> { ranges.iter().map(|r| end(r) as f32).collect() };
        [of(|range| range.start).into(), of(|range| range.end).into()]
    }

    /// Pairs of a query and a key that count, of one head.
    pub fn pairs(&self) -> u64 {
        self.ranges().iter().map(|range| range.len() as u64).sum()
    }
}

fn check_starts(what: &str, starts: &[usize], rows: usize) -> Result<(), AttentionError> {
    let (first, last) = (starts.first().copied(), starts.last().copied());
    if let Some(at) = starts.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(AttentionError::size(
            format!("the starts of {what} descend: {} follows {}", starts[at + 1], starts[at]),
            format!("sequence {at} would have a negative length"),
            "the sums of the lengths, from 0 on",
        ));
    }
    if first != Some(0) || last.is_some_and(|last| last > rows) {
        return Err(AttentionError::size(
            format!("{} starts of {what}, from {first:?} to {last:?}", starts.len()),
            format!("a start for each sequence, from 0, and the end of the last one, up to {rows} rows"),
            "the sums of the lengths, from 0 on",
        ));
    }
    Ok(())
}
