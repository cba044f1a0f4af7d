//! Kinds of problems by their blocks and rows.

use bsr_codegen::{AttentionTiles, Plan};

use bsr_runtime::attention::{AttentionError, BlockList, HeadOrder, Mask, Shape, Sharing};

use super::super::Problem;

/// How much greater than one by the root of the depth the scale of some problems is.
const STEEPNESS: f32 = 24.0;
/// Steps that a producer reads at once.
const BATCH: usize = 32;
/// Steps of a long row: more than two batches.
const LONG: usize = 2 * BATCH + 3;
/// Steps of each part of a long row: more than a batch.
const LONG_PART: usize = BATCH + 3;
/// Keys of a part that the host makes in any case.
const LEAST_KEYS: usize = 3072;
/// Block columns of a tile whose rows share no block: a ring's last stage is one of another row and not the last but one.
const APART: usize = 36;
/// Tiles of one CTA: the two buffers of Q go round three times, and once more is asked for an empty one.
pub(super) const TILES: usize = 8;
/// Which of eight neighbouring blocks are partial: of two that a step has keys of, none, either and both.
const PARTIAL: [bool; 8] = [false, true, false, false, true, false, true, true];

/// Whether a block of a pattern is stored, by pattern, row and column of blocks, and whether it is partial.
pub(super) type Stored<'s> = &'s dyn Fn([usize; 3]) -> Option<bool>;

/// Sizes that the plan asks for.
pub(super) struct Sizes<'p> {
    pub(super) plan: &'p Plan,
    seed: u64,
    pub(super) round: usize,
    pub(super) block: (usize, usize),
    /// Queries of a work tile, keys of a step.
    pub(super) tile: usize,
    pub(super) step: usize,
    /// Blocks that a step has keys of.
    pub(super) blocks: usize,
    /// Heads of Q that share a tile.
    pack: usize,
}

impl<'p> Sizes<'p> {
    pub(super) fn new(plan: &'p Plan, tiles: &AttentionTiles, seed: u64, round: usize) -> Self {
        let [bm, bk, tile, step, blocks, pack] =
            [tiles.block.0, tiles.block.1, tiles.rows, tiles.step, tiles.blocks, tiles.heads()]
                .map(|number| number as usize);
        Self { plan, seed: seed.wrapping_add(3 * round as u64), round, block: (bm, bk), tile, step, blocks, pack }
    }

    /// Parts of a wide tile whose rows share no block, so wide that `parts` CTAs are worth what they cost.
    pub(super) fn worth_sharing(&self, parts: usize) -> usize {
        parts * (LEAST_KEYS / (APART * self.block.1)).max(1)
    }

    /// Queries and keys of whole blocks: about 256 rows of Q, three columns of blocks or more.
    pub(super) fn whole(&self) -> (usize, usize) {
        let (bm, bk) = self.block;
        let least = if self.pack < 8 { 2 } else { 1 };
        let rows = (256 / self.pack).div_ceil(bm).max(least);
        (rows * bm, (384_usize.div_ceil(bk).max(3) + self.round % 3) * bk)
    }

    /// The same, ending inside a block. Where heads share tiles there are fewer of them, and the last one is of one consumer.
    pub(super) fn ragged(&self) -> (usize, usize) {
        let ((bm, bk), (queries, keys), tile) = (self.block, self.whole(), self.tile);
        let all = queries - bm / 2 - 3 - 5 * self.round % (bm / 4);
        let few = if self.pack > 1 { all.min(4 * tile) / tile * tile + (tile / 4).max(1) } else { all };
        (few, keys - bk / 2 - 5 - 3 * self.round % bk)
    }

    /// A problem of so many queries and keys, problems, heads and heads of K; `stored` says which blocks there are.
    pub(super) fn of(
        &self,
        sizes: (usize, usize),
        [batch, heads, key_heads]: [usize; 3],
        pattern: &str,
        stored: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Problem, AttentionError> {
        // Any block may be partial: the score is right in all of them.
        let partial = |row: usize, column: usize| PARTIAL[(3 * row + column) % PARTIAL.len()];
        let stored = |[_, row, column]: [usize; 3]| stored(row, column).then(|| partial(row, column));
        self.patterns((sizes, [batch, heads, key_heads]), (Sharing::All, 1), pattern, &stored)
    }

    /// The same with so many patterns.
    pub(super) fn patterns(
        &self,
        ((queries, keys), [batch, heads, key_heads]): ((usize, usize), [usize; 3]),
        (sharing, patterns): (Sharing, usize),
        words: &str,
        stored: Stored<'_>,
    ) -> Result<Problem, AttentionError> {
        let (spec, (bm, bk)) = (self.plan.spec(), self.block);
        let list = |pattern: usize| {
            let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
            for row in 0..queries.div_ceil(bm) {
                for column in 0..keys.div_ceil(bk) {
                    let Some(partial) = stored([pattern, row, column]) else { continue };
                    list.indices.push(column as u32);
                    list.partial.push(spec.score.is_some() && partial);
                }
                list.indptr.push(list.indices.len() as u32);
            }
            list
        };
        let shape = Shape { batch, heads: heads * self.pack, key_heads, queries, keys, columns: spec.bn as usize };
        let mask = Mask::new((queries, keys), (bm, bk), sharing, (0..patterns).map(list).collect())?;
        Ok(Problem { seed: self.seed, ..Problem::new(spec, shape, mask, words)? })
    }

    /// All blocks, some, none; several heads and problems.
    pub(super) fn of_blocks(&self, parts: usize) -> Result<Vec<(&'static str, Problem)>, AttentionError> {
        let ((queries, keys), ragged) = (self.whole(), self.ragged());
        // Each part has partial blocks after its first step.
        let heads = self.of((ragged.0, ragged.1 + 2 * (parts - 1) * keys), [2, 4, 2], "all", &|_, _| true)?;
        let uneven = |row: usize, column: usize| row.is_multiple_of(3) || (row * 7 + column * 5).is_multiple_of(4);
        let empty = |row: usize, column: usize| row % 4 > 1 && column % 2 == row % 2;
        Ok(vec![
            ("whole", self.of((queries, keys), [1, 1, 1], "all", &|_, _| true)?),
            ("ragged", self.of(ragged, [1, 2, 2], "all", &|_, _| true)?),
            ("heads", Problem { order: HeadOrder::RowsFirst, ..heads }),
            ("uneven", self.of((2 * queries, 2 * keys), [1, 1, 1], "rows of different lengths", &uneven)?),
            ("empty", self.of((2 * queries, keys), [1, 1, 1], "rows without blocks", &empty)?),
            ("nothing", self.of(ragged, [1, 1, 1], "no blocks", &|_, _| false)?),
        ])
    }

    /// Another pattern for each problem of a batch, some of whose blocks are partial.
    pub(super) fn listed(&self) -> Result<Problem, AttentionError> {
        let stored = |[pattern, row, column]: [usize; 3]| {
            let there = (row * 7 + column * 5 + 3 * pattern).is_multiple_of(4) || row % 3 == pattern;
            there.then_some(PARTIAL[(3 * row + column) % PARTIAL.len()])
        };
        self.patterns((self.ragged(), [2, 2, 1]), (Sharing::ByProblem, 2), "a pattern for each problem", &stored)
    }

    /// Rows of one tile that share no block: their consumers pass each other's steps on. Some of the parts of a tile have no
    /// key of one row.
    pub(super) fn apart(&self, parts: usize) -> Result<Problem, AttentionError> {
        let ((bm, bk), tile) = (self.block, self.tile);
        // The last tile has the end of the first row of blocks.
        let queries = bm / tile * tile + tile;
        // What a step has keys of is one row's.
        let each = self.blocks;
        let stored = |row: usize, column: usize| column / each % 3 == (row + 1) % 3 && (row % 3 != 1 || column < APART);
        self.of((queries, APART * parts * bk), [1, 1, 1], "rows that share no block", &stored)
    }

    /// Tiles whose first consumers pass on the first of a few steps and one between others. Of twice as many tiles as there are
    /// stages each begins at another stage, or in another round of the ring.
    pub(super) fn begins(&self, parts: usize) -> Result<Problem, AttentionError> {
        let ((bm, bk), tile, places) = (self.block, self.tile, 2 * self.plan.profile().stages as usize);
        // Steps of a tile, without a common divisor with the places: the last block may lack some of its steps.
        let of_block = (bk / self.step).max(1);
        let coprime = |all: &usize| (2..=places).all(|d| !places.is_multiple_of(d) || !all.is_multiple_of(d));
        let mut lengths = (5..).flat_map(|steps| (0..of_block).map(move |cut| (steps, cut)));
        let (steps, cut) = lengths.find(|(steps, cut)| coprime(&(steps * of_block - cut))).unwrap_or((5, 0));
        let (queries, each) = (bm / tile * tile + tile, self.blocks);
        let from_end = |column: usize| steps - 1 - column / each % steps;
        let stored = |row: usize, column: usize| matches!(from_end(column), 0 | 1 | 3) == (row == 0);
        let keys = parts * steps * each * bk - cut * self.step;
        self.of((queries, keys), [places + 1, 1, 1], "rows that begin after one another", &stored)
    }

    /// A long row, whose keys end inside a block. Where the host decides whether CTAs share its keys, it is the only one, its
    /// last queries are no whole warp's, and other consumers have none of the last tile.
    pub(super) fn long(&self, parts: usize, alone: bool) -> Result<Problem, AttentionError> {
        let (bm, bk) = self.block;
        let steps = if parts > 1 { parts * LONG_PART } else { LONG };
        let keys = (steps * self.step).next_multiple_of(bk) - bk / 2 + 3;
        let queries = if alone { (bm / 2).min(self.tile) + 3 } else { self.whole().0.min(2 * self.tile) };
        let stored = |row: usize, column: usize| row == 0 || column == row;
        Ok(steep(self.of((queries, keys), [1, 1, 1], "a long row", &stored)?))
    }

    /// Short rows, so many that tiles begin and end at every stage of the rings, those too that have the end of a row of blocks
    /// among their queries.
    pub(super) fn short(&self, parts: usize) -> Result<Problem, AttentionError> {
        let ((bm, bk), begins) = (self.block, 3 * self.plan.profile().stages as usize);
        // Parts are of different lengths.
        let each = if parts > 1 { 2 } else { 1 };
        let tiles = (each * begins).div_ceil(parts).max(2 * (bm / self.tile + 1)).max(TILES);
        let queries = tiles * self.tile;
        let problems = if bm.is_multiple_of(self.tile) { 1 } else { (begins * bm).div_ceil(queries * parts) };
        // Of every fourteen blocks of a row four are stored: two steps, if each has keys of two blocks. Two rows of three have one
        // block less at their ends, or two: tiles of one length would begin at few stages alone.
        let columns = (self.whole().1 / bk).max(14) * parts;
        let stored = |row: usize, column: usize| (row * row + 5 * column) % 7 < 2 && column + 4 * (row % 3) < columns;
        let sizes = (queries, columns * bk - bk / 2 + 3);
        Ok(steep(self.of(sizes, [problems, 1, 1], "many short rows", &stored)?))
    }
}

/// Scores so far apart that the reference of the exponentials moves in most steps.
fn steep(problem: Problem) -> Problem {
    Problem { scale: STEEPNESS * problem.scale, ..problem }
}
