//! The problems of `bsr check` for an attention: small, each of a kind that kernels get wrong, sized by the kernel's plan.

use bsr::Plan;
use bsr::attention::{BlockList, HeadOrder, Mask, Shape, Sharing};
use bsr::simulated::Options;
use bsr_codegen::SplitK;

use super::super::exit::Failure;
use super::super::trials::EFFORT;
use super::problem::Problem;

/// CTAs that share the work, of one problem after the other.
const CTAS: [u32; 3] = [3, 1, 7];
/// CTAs for each tile where the host decides whether they share its keys.
const SHARING: u32 = 3;
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
/// Which of eight neighbouring blocks are partial: of two that a step has keys of, none, either and both.
const PARTIAL: [bool; 8] = [false, true, false, false, true, false, true, true];
/// Multiplications and additions that take as long as the exponential of one product.
const EXPONENTIAL: u64 = 256;
/// Multiplications and additions of a warp instruction, far fewer than there are.
const INSTRUCTION: u64 = 100;

/// One problem of a check.
pub(super) struct Kind {
    /// The label of its line.
    pub(super) name: &'static str,
    pub(super) problem: Problem,
    /// At most so many CTAs share the work.
    pub(super) ctas: u32,
    /// Whether the logarithms of the rows' sums are asked for.
    pub(super) sums: bool,
}

impl Kind {
    /// The problem that was asked for.
    pub(super) fn asked(problem: Problem) -> Self {
        Self { name: "problem", problem, ctas: CTAS[0], sums: true }
    }

    /// Roughly how long a run takes, in multiplications and additions. Divided keys are computed twice.
    fn effort(&self, plan: &Plan) -> u64 {
        let Problem { shape, mask, depth, .. } = &self.problem;
        let launches = if plan.spec().split.is_on() { 2 } else { 1 };
        let products = 2 * (depth + shape.columns) as u64 + EXPONENTIAL;
        (launches * products * mask.pairs(shape.batch, shape.heads)).max(1)
    }

    /// Those of the schedules that its effort allows, one at least, with room for a long problem's instructions.
    pub(super) fn schedules(&self, plan: &Plan, all: &[Options]) -> Vec<Options> {
        let effort = self.effort(plan);
        let few = usize::try_from(EFFORT / effort).unwrap_or(usize::MAX).max(1);
        let of =
            |options: &Options| Options { max_steps: options.max_steps.max(effort / INSTRUCTION), ..options.clone() };
        all.iter().take(few).map(of).collect()
    }

    /// Roughly how long its schedules take.
    pub(super) fn all_effort(&self, plan: &Plan, schedules: &[Options]) -> u64 {
        self.effort(plan).saturating_mul(self.schedules(plan, schedules).len() as u64)
    }
}

/// Sizes that the plan asks for.
struct Sizes<'p> {
    plan: &'p Plan,
    seed: u64,
    block: (usize, usize),
    /// Queries of a work tile, keys of a step.
    tile: usize,
    step: usize,
    /// Heads of Q that share a tile.
    pack: usize,
}

/// Problems of every kind.
pub(super) fn all(plan: &Plan, seed: u64) -> Result<Vec<Kind>, Failure> {
    let spec = plan.spec();
    let (bm, bk) = (spec.bm as usize, spec.bk as usize);
    let tiles = plan.attention_tiles();
    let sizes = Sizes {
        plan,
        seed,
        block: (bm, bk),
        tile: tiles.map_or(bm, |tiles| tiles.rows as usize),
        step: tiles.map_or(bk, |tiles| tiles.step as usize),
        pack: tiles.map_or(1, |tiles| tiles.heads() as usize),
    };
    let mut kinds: Vec<(&'static str, Problem)> = sizes.of_blocks()?;
    // Parts that a tile's keys are divided into, which have as many steps as a tile of another kernel.
    let parts = if let SplitK::Parts(parts) = spec.split { parts as usize } else { 1 };
    kinds.extend([
        ("apart", sizes.apart(parts)?),
        ("long", sizes.long(parts, false)?),
        ("short", sizes.short(parts)?),
        ("begins", sizes.begins(parts)?),
        ("single", sizes.of((1, 1), [1, 1, 1], "one query, one key", &|_, _| true)?),
    ]);
    let mut kinds: Vec<Kind> = kinds
        .into_iter()
        .zip(CTAS.into_iter().cycle())
        .map(|((name, problem), ctas)| Kind {
            name,
            problem,
            ctas: if ["short", "begins"].contains(&name) { 1 } else { ctas },
            sums: true,
        })
        .collect();
    if matches!(spec.split, SplitK::Auto | SplitK::Long) {
        let parts = SHARING as usize;
        let of = |name, problem: Problem| {
            let ctas = SHARING * problem.shape.queries.div_ceil(sizes.tile) as u32;
            Kind { name, problem, ctas, sums: true }
        };
        // A part is worth what it costs if it has enough keys.
        let wide = parts * (LEAST_KEYS / (APART * bk)).max(1);
        kinds.extend([of("passed on", sizes.apart(wide)?), of("divided", sizes.long(parts, true)?)]);
    }
    let problem = sizes.of(sizes.ragged(), [1, 1, 1], "all", &|_, _| true)?;
    kinds.push(Kind { name: "no sums", problem, ctas: CTAS[0], sums: false });
    Ok(kinds)
}

impl Sizes<'_> {
    /// Blocks that a step has keys of.
    fn blocks_a_step(&self) -> usize {
        (self.step / self.block.1).max(1)
    }

    /// Queries and keys of whole blocks: about 256 rows of Q, three columns of blocks or more.
    fn whole(&self) -> (usize, usize) {
        let (bm, bk) = self.block;
        let least = if self.pack < 8 { 2 } else { 1 };
        let rows = (256 / self.pack).div_ceil(bm).max(least);
        (rows * bm, 384_usize.div_ceil(bk).max(3) * bk)
    }

    /// The same, ending inside a block. Where heads share tiles there are fewer of them, and the last one is of one consumer.
    fn ragged(&self) -> (usize, usize) {
        let ((bm, bk), (queries, keys), tile) = (self.block, self.whole(), self.tile);
        let all = queries - bm / 2 - 3;
        let few = if self.pack > 1 { all.min(4 * tile) / tile * tile + (tile / 4).max(1) } else { all };
        (few, keys - bk / 2 - 5)
    }

    /// A problem of so many queries and keys, problems, heads and heads of K; `stored` says which blocks there are.
    fn of(
        &self,
        (queries, keys): (usize, usize),
        [batch, heads, key_heads]: [usize; 3],
        pattern: &str,
        stored: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Problem, Failure> {
        let (spec, (bm, bk)) = (self.plan.spec(), self.block);
        let mut list = BlockList { indptr: vec![0], ..BlockList::default() };
        for row in 0..queries.div_ceil(bm) {
            for column in (0..keys.div_ceil(bk)).filter(|column| stored(row, *column)) {
                list.indices.push(column as u32);
                // Any block may be partial: the score is right in all of them.
                list.partial.push(spec.score.is_some() && PARTIAL[(3 * row + column) % PARTIAL.len()]);
            }
            list.indptr.push(list.indices.len() as u32);
        }
        let shape = Shape { batch, heads: heads * self.pack, key_heads, queries, keys, columns: spec.bn as usize };
        let mask = Mask::new((queries, keys), (bm, bk), Sharing::All, vec![list])?;
        Ok(Problem { seed: self.seed, ..Problem::of_mask(spec, shape, mask, pattern.to_owned()) })
    }

    /// All blocks, some, none; several heads and problems.
    fn of_blocks(&self) -> Result<Vec<(&'static str, Problem)>, Failure> {
        let ((queries, keys), ragged) = (self.whole(), self.ragged());
        let heads = self.of(ragged, [2, 4, 2], "all", &|_, _| true)?;
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

    /// Rows of one tile that share no block: their consumers pass each other's steps on. Some of the parts of a tile have no
    /// key of one row.
    fn apart(&self, parts: usize) -> Result<Problem, Failure> {
        let ((bm, bk), tile) = (self.block, self.tile);
        // The last tile has the end of the first row of blocks.
        let queries = bm / tile * tile + tile;
        // What a step has keys of is one row's.
        let each = self.blocks_a_step();
        let stored = |row: usize, column: usize| column / each % 3 == (row + 1) % 3 && (row % 3 != 1 || column < APART);
        self.of((queries, APART * parts * bk), [1, 1, 1], "rows that share no block", &stored)
    }

    /// Tiles whose first consumers pass on the first of a few steps and one between others. Of as many tiles as there are
    /// stages each begins at another stage.
    fn begins(&self, parts: usize) -> Result<Problem, Failure> {
        let ((bm, bk), tile, stages) = (self.block, self.tile, self.plan.profile().stages as usize);
        // Without a common divisor with the stages.
        let steps = (5..).find(|steps| (2..=stages).all(|d| stages % d != 0 || steps % d != 0)).unwrap_or(5);
        let (queries, each) = (bm / tile * tile + tile, self.blocks_a_step());
        let from_end = |column: usize| steps - 1 - column / each % steps;
        let stored = |row: usize, column: usize| matches!(from_end(column), 0 | 1 | 3) == (row == 0);
        let keys = parts * steps * each * bk;
        self.of((queries, keys), [stages + 1, 1, 1], "rows that begin after one another", &stored)
    }

    /// A long row, whose keys end inside a block. Where the host decides whether CTAs share its keys, it is the only one, its
    /// last queries are no whole warp's, and other consumers have none of the last tile.
    fn long(&self, parts: usize, alone: bool) -> Result<Problem, Failure> {
        let (bm, bk) = self.block;
        let steps = if parts > 1 { parts * LONG_PART } else { LONG };
        let keys = (steps * self.step).next_multiple_of(bk) - bk / 2 + 3;
        let queries = if alone { (bm / 2).min(self.tile) + 3 } else { self.whole().0.min(2 * self.tile) };
        let stored = |row: usize, column: usize| row == 0 || column == row;
        Ok(steep(self.of((queries, keys), [1, 1, 1], "a long row", &stored)?))
    }

    /// Short rows, so many that tiles begin and end at every stage of the rings, those too that have the end of a row of blocks
    /// among their queries.
    fn short(&self, parts: usize) -> Result<Problem, Failure> {
        let ((bm, bk), begins) = (self.block, 3 * self.plan.profile().stages as usize);
        // Parts are of different lengths.
        let each = if parts > 1 { 2 } else { 1 };
        let tiles = (each * begins).div_ceil(parts).max(2 * (bm / self.tile + 1));
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
