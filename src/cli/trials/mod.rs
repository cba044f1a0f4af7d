//! The problems of `bsr check`: small, each of a kind that kernels get wrong, and sized by the kernel's plan, so that
//! every loop of it goes round often enough.
//!
//! What a kernel does only sometimes it must be made to do here: every ring, of stages, of work tiles and of staging
//! buffers, goes round three times, a work list is long enough for the third tile of a CTA (the first whose staging
//! buffer was used before), block columns come in more than two batches of 32, more block rows than share a tile, K of a
//! sampled product is long enough to be split between CTAs, C ends at every guard of a tile, and the problems of a list
//! differ in patterns, values and extents.
mod edges;
mod ends;
mod kind;
mod large;
mod long;
mod scale;
mod sizes;
mod split;
#[cfg(test)]
mod tests;

use bsr::simulated::{Options, Schedule};
use bsr::{BsrError, KernelSpec, Op, Plan, Structure};
pub(super) use kind::Kind;
use scale::Scale;
use sizes::Sizes;

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
        let other = match self.members.len() {
            0 | 1 => String::new(),
            2 => ", and another one".to_owned(),
            many => format!(", and {} others", many - 1),
        };
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
