//! Where keys end, and where the diagonal passes through a step.

use bsr_runtime::attention::{AttentionError, Sharing};

use super::super::Problem;
use super::by_blocks::Sizes;

/// Keys that are asked about together: of a pair of neighbouring ones in each of four lanes.
const LANES: usize = 8;
/// What the numbers of a score are where it may leave few keys of a query.
const NUMBER: f32 = 6.5;

impl Sizes<'_> {
    /// Problems whose keys end within every eight keys of a step: after the first of them, and after two, four or six. A key too
    /// many or too few of either of a thread's neighbouring keys is one that counts, or does not. The last block is in the first
    /// step of a tile and in a later one, as the first block of the step and as its second.
    ///
    /// Where there is a score, the last block is partial in half of the problems of a batch, and the last queries are about as many
    /// as there are keys: of those that look back and of those that look around, some see the last key.
    pub(super) fn remainders(&self, parts: usize) -> Result<Vec<Problem>, AttentionError> {
        let ((bm, bk), run) = (self.block, self.step / self.blocks);
        // Neighbouring blocks that a step joins.
        let joined = run.div_ceil(bk);
        let columns = 2 * self.blocks * joined * parts;
        let stored = |pattern: usize, from_end: usize| match pattern {
            0 => from_end == 0,
            1 if self.blocks == 2 => from_end < 2,
            2 => from_end != 1,
            _ => true,
        };
        let ends = (0..run / LANES).flat_map(|eight| {
            let odd = 1 + 2 * (self.round % 4);
            let even = 2 * (1 + (eight + self.round) % 3);
            [odd, even].map(|rest| LANES * eight + rest)
        });
        let (kinds, scored) = (2 * self.blocks, self.plan.spec().score.is_some());
        let patterns = if scored { 2 * kinds } else { kinds };
        let problem = |rest: usize| {
            let keys = (columns - joined) * bk + rest;
            let last = keys.div_ceil(bk) - 1;
            let (queries, first) = match scored {
                true => (keys + 1 + 5 * rest % (self.tile / 2).max(1), (keys - rest.min(2 * LANES)) / bm),
                false => (1 + 17 * rest % self.tile, 0),
            };
            let blocks = |[pattern, row, column]: [usize; 3]| {
                let partial = column == last && pattern < kinds;
                (row >= first && stored(pattern % kinds, last - column)).then_some(partial)
            };
            let sizes = ((queries, keys), [patterns, 1, 1]);
            self.patterns(sizes, (Sharing::ByProblem, patterns), "where keys end", &blocks)
        };
        ends.map(problem).collect()
    }

    /// Tiles that begin with a partial block on the diagonal, and those that have a block before it, or three: both blocks of a
    /// step are on it, in the first step and in a later one. All blocks are partial, so that a score may leave a query without
    /// keys beside one that has some. Parts of a tile have two steps each.
    pub(super) fn diagonal(&self, parts: usize) -> Result<Problem, AttentionError> {
        let (bm, bk) = self.block;
        let queries = (2 * self.step).next_multiple_of(self.tile) + 13;
        let keys = if parts > 1 { queries + 2 * parts * self.step } else { queries };
        let patterns = 2 * self.blocks;
        let blocks = |[before, row, column]: [usize; 3]| {
            let (from, diagonal) = (column + before, row * bm / bk);
            let of_parts = parts > 1 && from < diagonal + patterns * parts;
            (from >= diagonal && (column * bk < (row + 1) * bm || of_parts)).then_some(true)
        };
        let sizes = ((queries, keys), [patterns, 1, 1]);
        let problem = self.patterns(sizes, (Sharing::ByProblem, patterns), "the diagonal", &blocks)?;
        Ok(Problem { scalars: vec![NUMBER; problem.scalars.len()], ..problem })
    }
}
