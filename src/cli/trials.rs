//! The problems of `bsr check`: small, each of a kind that kernels get wrong, and sized by the kernel's plan, so that
//! every loop of it goes round often enough.
//!
//! What a kernel does only sometimes it must be made to do here: every ring, of stages, of work tiles and of staging
//! buffers, goes round three times, a work list is long enough for the third tile of a CTA (the first whose staging
//! buffer was used before), block columns come in more than two batches of 32, more block rows than share a tile, K of a
//! sampled product is long enough to be split between CTAs, C ends at every guard of a tile, and the problems of a list
//! differ in patterns, values and extents.

#[path = "trials/edges.rs"]
mod edges;
#[path = "trials/ends.rs"]
mod ends;
#[path = "trials/large.rs"]
mod large;
#[path = "trials/long.rs"]
mod long;
#[path = "trials/scale.rs"]
mod scale;
#[path = "trials/split.rs"]
mod split;

use bsr::simulated::{Options, Schedule};
use bsr::{BsrError, KernelSpec, Launcher, Op, Plan, Structure};
use bsr_codegen::SplitK;
use bsr_codegen::epilogue::Reduction;
use long::Long;
use scale::Scale;
use split::{Split, Width};

/// Clusters of a run: each takes several tiles, and there is another to disturb.
const CLUSTERS: u32 = 2;
/// Multiplications and additions of one problem that may be done in all of its schedules together.
pub(super) const EFFORT: u64 = 2 << 30;

/// Warp instructions after which a cluster is stopped: hundreds of times what a problem here takes.
pub(super) const MAX_STEPS: u64 = 5_000_000;
/// Findings after which a cluster is stopped.
const MAX_FINDINGS: usize = 8;

/// Schedule `number`, from 0: a seed alone replays a scrambled one with `--schedules 1`.
pub(super) fn schedule(seed: u64, number: u32) -> Options {
    let (schedule, seed) = match number {
        0 => (Schedule::Scrambled, seed),
        1 => (Schedule::Early, seed),
        2 => (Schedule::Late, seed),
        // Neighbouring seeds are as different as any, but an odd one lets some warps run far ahead.
        _ => (Schedule::Scrambled, seed.wrapping_add(u64::from(number) - 2)),
    };
    Options { schedule, seed, max_steps: MAX_STEPS, max_findings: MAX_FINDINGS, ..Options::default() }
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Everything is a multiple of its tile; every cluster has several tiles.
    Whole,
    /// M, N and K end inside a tile and a block.
    Ragged,
    /// Block rows of very different lengths, two of them beyond two rounds of the ring; three tiles a cluster.
    Uneven,
    /// One block row of more than two batches of indices among rows of one block.
    FullRow,
    /// Block rows without blocks, the first and one between others.
    EmptyRows,
    /// Block rows of one block in a block column of its own, or none: a full tile, then three a cluster with a block each.
    Alone,
    /// All products are negative.
    Negative,
    /// The same, of a kernel that takes the greatest element of a row: N ends a pair of columns before a tile.
    LastPair,
    /// No blocks at all: C is zero.
    NoBlocks,
    /// N = 1.
    OneColumn,
    /// Lines of the dense operands lie gigabytes apart.
    FarLines,
    /// Clusters share the K of tiles.
    Split,
    /// The same of a sampled product's tiles of half the width.
    SplitHalf,
    /// Clusters share the K of rows that are much longer than others.
    LongRows,
    /// Kernels list the work, as of a pattern on a GPU.
    DevicePattern,
    /// A single block of which C ends after other rows and columns in each, K in other places.
    Edge(u8),
}

/// A product: the sparse factor's structure as it is stored, and the extent of C along the dense one.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) structure: Structure,
    pub(super) n: usize,
    /// Seed of the values.
    pub(super) seed: u64,
}

/// One problem. Shapes depend on kernel and number alone, never on a seed.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// The product; two that differ of a kernel for lists of them.
    pub(super) members: Vec<Member>,
    /// At most so many clusters share the work.
    pub(super) clusters: u32,
    /// All elements of one factor are positive, and all of the other negative.
    pub(super) negative: bool,
    /// Lines of the dense operands lie far apart.
    pub(super) far: bool,
    /// Kernels list the work.
    pub(super) listed: bool,
    /// Elements of the dense factor are drawn so much smaller: long sums stay in the range of an epilogue's functions.
    pub(super) shrink: f64,
    /// Roughly how long a run takes, in multiplications and additions.
    pub(super) effort: u64,
    /// The most schedules that the effort allows.
    pub(super) schedules: usize,
}

/// The dense factor and C of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Rows and columns of the dense factor.
    pub(super) dense: (usize, usize),
    /// Rows of C.
    pub(super) rows: usize,
    /// Columns of C.
    pub(super) cols: usize,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Whole,
        Self::Ragged,
        Self::Uneven,
        Self::FullRow,
        Self::EmptyRows,
        Self::Alone,
        Self::Negative,
        Self::NoBlocks,
        Self::OneColumn,
        Self::FarLines,
    ];

    /// Those of a kernel of which a single block takes long.
    const FEW: [Self; 4] = [Self::Ragged, Self::EmptyRows, Self::NoBlocks, Self::FarLines];

    /// The kinds of problems for a kernel.
    pub(super) fn all(plan: &Plan) -> Vec<Self> {
        if Scale::of(plan).is_slow() {
            return Self::FEW.to_vec();
        }
        let halves = plan.sddmm_tiles().is_some_and(|form| form.half.is_some()) && shares_k(plan);
        let split = (plan.sddmm_tiles().is_some() || plan.split_form().is_some()).then_some(Self::Split);
        let reduction = plan.spec().epilogue.and_then(|epilogue| epilogue.program().reduction());
        let pair = (reduction == Some(Reduction::Max) && plan.sddmm_tiles().is_none()).then_some(Self::LastPair);
        let divides_long = plan.spec().split == SplitK::Long && !plan.spec().batch.is_on();
        let long = divides_long.then_some(Self::LongRows);
        let edges = (0..Scale::of(plan).edges(plan.profile().kind)).map(|at| Self::Edge(at as u8));
        let (halves, listed) = (halves.then_some(Self::SplitHalf), Launcher::takes_device_pattern(plan).is_ok());
        let listed = listed.then_some(Self::DevicePattern);
        let all = Self::ALL.into_iter().chain(split).chain(halves).chain(long).chain(pair);
        all.chain(listed).chain(edges).collect()
    }

    /// The kind of a kernel's problem number `index`, from 0.
    pub(super) fn of(plan: &Plan, index: usize) -> Self {
        let kinds = Self::all(plan);
        kinds[index % kinds.len()]
    }

    /// The label of its line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Ragged => "ragged",
            Self::Uneven => "uneven",
            Self::FullRow => "full row",
            Self::EmptyRows => "empty",
            Self::Alone => "alone",
            Self::Negative => "negative",
            Self::LastPair => "last pair",
            Self::NoBlocks => "no blocks",
            Self::OneColumn => "N = 1",
            Self::FarLines => "far lines",
            Self::Split => "split K",
            Self::SplitHalf => "split half",
            Self::LongRows => "long rows",
            Self::DevicePattern => "GPU lists",
            Self::Edge(_) => "edges",
        }
    }
}

impl Trial {
    /// Problem number `index` for a kernel, from 0: the kinds in turn, varied from one round to the next.
    ///
    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    pub(super) fn new(plan: &Plan, index: usize) -> Result<Self, BsrError> {
        let (kinds, scale) = (Kind::all(plan).len(), Scale::of(plan));
        let (kind, round, seed) = (Kind::of(plan, index), index / kinds, index as u64);
        let first = Sizes::new(plan, &scale, kind, round)?;
        let mut members = vec![first.member(plan, &scale, (kind, round), seed)?];
        if plan.spec().batch.is_on() {
            // As the next round has it, and a little shorter: another pattern, other ends, other values.
            let mut other = Sizes::new(plan, &scale, kind, round + 1)?;
            other.along = scale.shorter(kind, other.along);
            members.push(other.member(plan, &scale, (kind, round + 1), seed + OTHER_VALUES)?);
        }
        let effort = scale.effort_of((&first.lengths, first.last_rows), first.along).max(1);
        let sums = if scale.sampled { first.along } else { first.most() * scale.block.1 };
        let most_schedules = if matches!(kind, Kind::Edge(_) | Kind::DevicePattern) { 1 } else { usize::MAX };
        Ok(Self {
            members,
            clusters: match (first.clusters, kind) {
                (Some(clusters), _) => clusters,
                // Both full rows, or both slices of one, are those of one cluster.
                (None, Kind::FullRow) if first.lengths.len() > 3 || scale.is_large() && scale.slices > 1 => 1,
                (None, kind) if scale.is_large() && !matches!(kind, Kind::Whole | Kind::FullRow) => 1,
                // The ring of a sampled product's work tiles is long.
                (None, Kind::Alone) if scale.sampled => 1,
                (None, _) => CLUSTERS,
            },
            negative: matches!(kind, Kind::Negative | Kind::LastPair),
            far: kind == Kind::FarLines,
            listed: kind == Kind::DevicePattern,
            shrink: match plan.spec().epilogue {
                None => 1.0,
                Some(_) if matches!(kind, Kind::Negative | Kind::LastPair) => shrink_of_one_sign(sums),
                Some(_) => shrink(sums),
            },
            effort,
            schedules: usize::try_from(EFFORT / effort).unwrap_or(usize::MAX).clamp(1, most_schedules),
        })
    }

    /// Roughly how long its schedules take, of which there are at most so many.
    #[allow(dead_code, reason = "tests that take this file by its path have another order")]
    pub(super) fn all_effort(&self, schedules: usize) -> u64 {
        self.effort.saturating_mul(self.schedules.min(schedules) as u64)
    }

    /// The product in words; the first one of a list.
    pub(super) fn words(&self, spec: &KernelSpec) -> String {
        let first = &self.members[0];
        let Shape { dense, rows: m, cols: n } = first.shape(spec);
        let k = if spec.op == Op::Dds { dense.1 } else { dense.0 };
        let other = if self.members.len() > 1 { ", and another one" } else { "" };
        format!("C[{m}, {n}] = A[{m}, {k}] * B[{k}, {n}], {} blocks{other}", first.structure.nnzb())
    }
}

impl Member {
    /// The dense factor and C.
    pub(super) fn shape(&self, spec: &KernelSpec) -> Shape {
        let (rows, cols) = (self.structure.rows(), self.structure.cols());
        let (rows, cols) = if spec.transpose.is_on() { (cols, rows) } else { (rows, cols) };
        match spec.op {
            Op::Dds => Shape { dense: (self.n, rows), rows: self.n, cols },
            Op::Sdd => Shape { dense: (self.n, cols), rows, cols },
            _ => Shape { dense: (cols, self.n), rows, cols: self.n },
        }
    }
}

/// Added to the seed of a list's second product.
const OTHER_VALUES: u64 = 1 << 20;

/// The extents of a product.
#[derive(Clone, Debug)]
struct Sizes {
    /// Stored blocks of every block row.
    lengths: Vec<usize>,
    /// Block columns.
    columns: usize,
    /// Rows of the last block row, and columns of the last block column.
    last_rows: usize,
    last_columns: usize,
    /// The extent along the dense factor.
    along: usize,
    /// The most clusters, where it matters.
    clusters: Option<u32>,
}

impl Sizes {
    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    fn new(plan: &Plan, scale: &Scale, kind: Kind, round: usize) -> Result<Self, BsrError> {
        let extra = 3 + (scale.tile / 2 + 5 * round) % scale.tile;
        let (last_rows, last_columns) = (scale.last_rows(kind, round), scale.last_columns(kind, round));
        let split = match kind {
            Kind::Split => Some(Split::new(plan, scale.block, scale.tile, Width::Full)?),
            Kind::SplitHalf => Some(Split::new(plan, scale.block, scale.tile, Width::Half)?),
            _ => None,
        };
        if let Some(Split { block_rows, blocks_a_row, along, clusters }) = split {
            let lengths = vec![blocks_a_row; block_rows];
            return Ok(Self {
                lengths,
                columns: blocks_a_row,
                last_rows,
                last_columns,
                along,
                clusters: Some(clusters),
            });
        }
        if kind == Kind::LongRows {
            let Long { lengths, columns, along, clusters } = Long::new(plan, scale.block, scale.tile)?;
            return Ok(Self { lengths, columns, last_rows, last_columns, along, clusters: Some(clusters) });
        }
        let lengths = scale.lengths(kind, round);
        let most = lengths.iter().copied().max().unwrap_or(0);
        let columns = match kind {
            Kind::Alone => lengths.len(),
            Kind::FullRow | Kind::OneColumn | Kind::Edge(_) => most,
            _ => most + 1,
        };
        let along = match kind {
            Kind::Edge(at) => {
                let extent = if scale.sampled { scale.stage } else { scale.tile };
                edges::end(extent, scale.edges(plan.profile().kind), at as usize + round)
            }
            _ => scale.along(kind, &lengths, extra),
        };
        let mut sizes = Self { lengths, columns, last_rows, last_columns, along, clusters: None };
        if let Kind::Edge(at) = kind {
            let (count, at) = (scale.edges(plan.profile().kind), at as usize + round);
            sizes.last_rows = edges::end(scale.edge_extents().0, count, at);
            sizes.last_columns = edges::end(scale.block.1, count, at);
        }
        Ok(sizes)
    }

    fn most(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    fn member(&self, plan: &Plan, scale: &Scale, (kind, round): (Kind, usize), seed: u64) -> Result<Member, BsrError> {
        let (bm, bk) = scale.block;
        let (m, k) = ((self.lengths.len() - 1) * bm + self.last_rows, (self.columns - 1) * bk + self.last_columns);
        let (row_ptr, col_idx) = stored(kind, round, &self.lengths, self.columns);
        let read = Structure::new(m, k, (bm, bk), row_ptr, col_idx)?;
        let structure = if plan.reads_block_columns() { read.transpose()? } else { read };
        Ok(Member { structure, n: self.along, seed })
    }
}

/// Whether clusters may share the K of an SDDMM's tiles.
fn shares_k(plan: &Plan) -> bool {
    plan.spec().schedule == Some(bsr::Schedule::Balanced) && !plan.spec().batch.is_on()
}

/// A power of two by which sums of so many products are about as large as those of 128.
pub(super) fn shrink(products: usize) -> f64 {
    let ratio = (products as f64 / 128.0).max(1.0);
    (-(ratio.log2() / 2.0).round()).exp2()
}

/// A power of two by which the sum of so many products of one sign is a few units: functions of an epilogue that vanish far
/// below zero do not yet, and there is something to compare.
fn shrink_of_one_sign(products: usize) -> f64 {
    let ratio = (products as f64 / 6.0).max(1.0);
    (-ratio.log2().round()).exp2()
}

/// Where rows of these lengths begin, and the block columns of each.
fn stored(kind: Kind, round: usize, lengths: &[usize], columns: usize) -> (Vec<i32>, Vec<i32>) {
    let (mut row_ptr, mut col_idx) = (vec![0], Vec::new());
    for (row, &length) in lengths.iter().enumerate() {
        col_idx.extend(places(kind, (row, round), length, columns));
        row_ptr.push(col_idx.len() as i32);
    }
    (row_ptr, col_idx)
}

/// The block columns of a row: spread over it, a little further to the right in every row and round, and up to the last
/// column in every other row.
fn places(kind: Kind, (row, round): (usize, usize), length: usize, columns: usize) -> Vec<i32> {
    if kind == Kind::Alone {
        return vec![row as i32; length];
    }
    let slack = columns.checked_div(length).unwrap_or(0).max(1);
    let at = |place: usize| match row % 2 == 0 && place + 1 == length {
        true => columns - 1,
        false => place * columns / length + (row + round) % slack,
    };
    (0..length).map(|place| at(place) as i32).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::scale::{FAR_LINES, INDEX_BATCH};
    use super::*;

    /// Kernels of which a tile takes long: seven tiles cover the rows of a block, and two.
    const LARGE: [&str; 2] = [
        "bm = 448, bn = 512, bk = 240, dtype = e4m3, out = f16, cluster = 4, epilogue = \"|| silu(acc)\"",
        "bm = 512, bn = 384, bk = 512, transpose = on, batch = on, b_layout = col, cluster = 4",
    ];

    fn plan(spec: &str) -> Plan {
        Plan::new(&spec.parse().unwrap()).unwrap()
    }

    fn long(plan: &Plan, scale: &Scale) -> bool {
        Long::new(plan, scale.block, scale.tile).unwrap().passes_on_late(plan, scale.block).unwrap()
    }

    #[test]
    fn every_kernel_has_problems_of_every_kind_in_every_round() {
        for spec in [
            "bm = 512, bn = 128, bk = 112",
            "bm = 64, bn = 16, bk = 16",
            "bm = 64, bn = 256, bk = 512",
            "bm = 64, bn = 64, bk = 48, dtype = e4m3, scale = block, accumulate = promoted",
            "bm = 16, bn = 32, bk = 16, mma = mma_sync",
            "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32",
            "bm = 24, bn = 64, bk = 128, transpose = on",
            "bm = 112, bn = 64, bk = 128, op = dds",
            "bm = 128, bn = 64, bk = 72, op = dds, transpose = on",
            "bm = 128, bn = 64, bk = 64, op = sdd, schedule = balanced",
            "bm = 256, bn = 32, bk = 16, op = sdd, schedule = balanced",
            "bm = 128, bn = 64, bk = 64, split = auto",
            "bm = 64, bn = 64, bk = 16, split = 3, cluster = 2",
            "bm = 64, bn = 64, bk = 64, swap = off, pack = 3",
            "bm = 128, bn = 64, bk = 64, swap = off, pack = 2, split = auto",
            "bm = 16, bn = 64, bk = 16, split = auto",
            "bm = 24, bn = 128, bk = 200, split = 3",
            "bm = 64, bn = 256, bk = 64, split = long",
            "bm = 128, bn = 128, bk = 128, cluster = 2, transpose = on, split = long",
            "bm = 64, bn = 64, bk = 64, swap = off, pack = 2, split = long",
            "bm = 32, bn = 64, bk = 32, split = long",
            "bm = 512, bn = 256, bk = 112, split = long",
            "bm = 64, bn = 64, bk = 32, epilogue = \"|| (relu(acc), row_max(acc))\"",
            LARGE[0],
            LARGE[1],
        ] {
            let plan = plan(spec);
            let by_columns = plan.reads_block_columns();
            let scale = Scale::of(&plan);
            for index in 0..120 {
                let trial = Trial::new(&plan, index).unwrap();
                let Member { structure, n, .. } = &trial.members[0];
                let read = if by_columns { structure.transpose().unwrap() } else { structure.clone() };
                let a = &read;
                let even = (a.rows().is_multiple_of(a.block().0), a.cols().is_multiple_of(a.block().1));
                let longest = a.row_lengths().max().unwrap_or(0);
                let tiles = a.rows().div_ceil(scale.block.0 / scale.slices);
                let most = if scale.is_large() { 3 } else { 6 };
                match Kind::of(&plan, index) {
                    Kind::Whole => assert_eq!(even, (true, true)),
                    Kind::Ragged => assert_eq!(even, (false, false)),
                    Kind::Uneven => {
                        assert!(longest > 3 * scale.ring && tiles > 3 * scale.pack);
                        assert!(a.row_lengths().any(|length| length == 0));
                    }
                    Kind::FullRow if scale.flop == 64 => assert_eq!(longest, a.block_cols()),
                    Kind::FullRow => {
                        assert!(longest == a.block_cols() && longest > scale.parts * INDEX_BATCH);
                    }
                    Kind::EmptyRows => assert!(a.nnzb() > 0 && a.row_lengths().any(|length| length == 0)),
                    Kind::Alone => {
                        assert!(longest == 1 && a.nnzb() > scale.pack && tiles >= most * scale.pack);
                        assert!(scale.pack == 1 || a.row_lengths().any(|length| length == 0));
                    }
                    Kind::Negative | Kind::LastPair => assert!(trial.negative),
                    Kind::NoBlocks => assert_eq!(a.nnzb(), 0),
                    Kind::OneColumn => assert_eq!(*n, 1),
                    Kind::FarLines => {
                        assert!(trial.far && (*n).min(a.rows()).min(a.cols()) >= FAR_LINES - 7);
                    }
                    Kind::Split | Kind::SplitHalf => {
                        let work = bsr_runtime::schedule::WorkLists::new(&plan, structure, *n, trial.clusters);
                        assert!(work.workspace > 0 && trial.clusters > 1);
                    }
                    Kind::LongRows => {
                        assert!(long(&plan, &scale), "{spec}: no part comes after a whole tile");
                    }
                    Kind::DevicePattern => {
                        assert!(trial.listed && a.nnzb() > 0 && a.row_lengths().any(|length| length == 0));
                    }
                    Kind::Edge(_) => assert_eq!((a.nnzb(), trial.schedules), (1, 1)),
                }
                assert!(trial.schedules > 0);
            }
        }
    }

    #[test]
    fn the_products_of_a_list_differ_in_pattern_values_and_extents() {
        for spec in ["bm = 64, bn = 64, bk = 64, batch = on", "bm = 128, bn = 64, bk = 64, op = sdd, batch = on"] {
            let plan = plan(spec);
            for index in 0..Kind::all(&plan).len() {
                let trial = Trial::new(&plan, index).unwrap();
                let [one, other] = &trial.members[..] else { panic!("{spec}: {} products", trial.members.len()) };
                assert_ne!(one.seed, other.seed);
                // These are what they are: without a block, of one column, or of whole tiles.
                let fixed = matches!(Kind::of(&plan, index), Kind::NoBlocks | Kind::OneColumn | Kind::Whole);
                assert!(fixed || one.n != other.n, "{spec}: {index}");
                assert!(fixed || one.structure != other.structure, "{spec}: {index}");
            }
        }
        assert_eq!(Trial::new(&plan("bm = 64, bn = 64, bk = 64"), 0).unwrap().members.len(), 1);
    }

    /// A ring's place and parity are those of its first round again in the third.
    #[test]
    fn every_ring_goes_round_three_times() {
        for spec in [
            "bm = 64, bn = 64, bk = 64",
            "bm = 512, bn = 128, bk = 112",
            "bm = 64, bn = 16, bk = 16",
            "bm = 16, bn = 64, bk = 16",
            "bm = 64, bn = 64, bk = 64, swap = off, pack = 3",
            "bm = 128, bn = 64, bk = 64, op = sdd",
            "bm = 32, bn = 64, bk = 32, op = sdd",
            "bm = 16, bn = 32, bk = 16, mma = mma_sync",
            LARGE[0],
            LARGE[1],
        ] {
            let plan = plan(spec);
            let scale = Scale::of(&plan);
            let trials = |kind: Kind| {
                let at = Kind::all(&plan).iter().position(|one| *one == kind).unwrap();
                let trial = Trial::new(&plan, at).unwrap();
                let structure = trial.members[0].structure.clone();
                (if plan.reads_block_columns() { structure.transpose().unwrap() } else { structure }, trial)
            };
            let (full, _) = trials(Kind::FullRow);
            let (alone, trial) = trials(Kind::Alone);
            match scale.sampled {
                true => {
                    let (_, whole) = trials(Kind::Whole);
                    let stages = whole.members[0].n.div_ceil(scale.stage) * (whole.members[0].structure.nnzb() / 2);
                    assert!(stages > 3 * scale.stages, "{spec}: {stages} stages");
                    let tiles = alone.nnzb().div_ceil(trial.clusters as usize);
                    assert!(tiles > 3 * (scale.stages + 3), "{spec}: {tiles} work tiles");
                }
                false => {
                    let longest = full.row_lengths().max().unwrap();
                    assert!(longest > 3 * scale.ring, "{spec}: {longest} blocks");
                    // Two staging buffers, whatever a tile has of each.
                    let tiles = alone.block_rows().div_ceil(scale.pack) * scale.slices;
                    assert!(tiles.div_ceil(trial.clusters as usize) >= 3, "{spec}: {tiles} tiles");
                }
            }
        }
    }

    #[test]
    fn rounds_differ_and_a_number_names_one_problem() {
        let plan = plan("bm = 128, bn = 128, bk = 64");
        let words = |index| Trial::new(&plan, index).unwrap().words(plan.spec());
        assert_eq!(words(1), words(1));
        assert_ne!(words(1), words(1 + Kind::all(&plan).len()));
    }

    #[test]
    fn what_takes_long_is_run_in_fewer_schedules() {
        let schedules = |spec: &str| Trial::new(&plan(spec), 3).unwrap().schedules;
        assert!(schedules("bm = 16, bn = 64, bk = 16") > 100);
        assert!(schedules("bm = 512, bn = 256, bk = 512") < 4);
    }

    #[test]
    fn kernels_of_which_a_block_takes_long_have_few_and_small_problems() {
        let effort = |spec: &str| {
            let plan = plan(spec);
            let trials = (0..Kind::all(&plan).len()).map(|index| Trial::new(&plan, index).unwrap());
            trials.map(|trial| trial.all_effort(4)).sum::<u64>()
        };
        assert!(effort("bm = 128, bn = 128, bk = 128, mma = scalar, dtype = f32") <= 11 * EFFORT);
        assert!(effort("bm = 512, bn = 496, bk = 112, mma = scalar, dtype = f32") <= 13 * EFFORT);
        // Tensor cores are simulated faster, and the problems of the largest tiles must still be of every kind.
        for large in LARGE {
            assert!(effort(large) <= 15 * EFFORT, "{large}: {}", effort(large) / EFFORT);
        }
    }
}
