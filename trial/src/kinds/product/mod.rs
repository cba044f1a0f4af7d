//! The problems of `bsr check`: small, each of a kind that kernels get wrong, and sized by the kernel's plan, so that
//! every loop of it goes round often enough.
//!
//! What a kernel does only sometimes it must be made to do here: every ring, of stages, of work tiles and of staging
//! buffers, goes round three times, a work list is long enough for the third tile of a CTA (the first whose staging
//! buffer was used before), block columns come in more than two batches of 32, more block rows than share a tile, K of a
//! sampled product is long enough to be split between CTAs, C ends at every guard of a tile, and the problems of a list
//! differ in patterns, values and extents.
mod draw;
mod edges;
mod ends;
mod kind;
mod large;
mod long;
mod member;
mod members;
mod scale;
mod sddmm;
mod sizes;
mod split;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bsr_codegen::{KernelSpec, Operand, Plan, Refusal};
use bsr_runtime::Extents;
use bsr_runtime::extents::sparse_operand;
use bsr_runtime::simulated::lists::ListKernels;
use bsr_runtime::simulated::{DEFAULT_CLUSTERS, Options};

use super::{EFFORT, Trial};
use crate::Failure;
use crate::problem::DrawnProblem;
use crate::simulate::{Drawn, SimulatedKernel};
use crate::verify::{RowChoice, longest_sum};
pub(crate) use draw::Draw;
use kind::Kind;
pub(crate) use member::Member;
use scale::Scale;
use sizes::Sizes;

/// Clusters of a run: each takes several tiles, and there is another to disturb.
const CLUSTERS: u32 = 2;

/// Draws the values of a trial.
pub(crate) type DrawValues = fn(&ProductTrial, RowChoice) -> Result<Box<dyn Drawn>, Failure>;

/// What a trial needs of its operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of {
    /// What a kernel computes of these extents, in words.
    pub(crate) words: fn(&KernelSpec, Extents) -> String,
    pub(crate) draw: DrawValues,
}

/// One problem. Shapes depend on kernel and number alone, never on a seed.
#[derive(Clone, Debug)]
pub(crate) struct ProductTrial {
    name: &'static str,
    pub(crate) spec: KernelSpec,
    of: Of,
    /// The problem that was requested, where it is not one of a kind.
    pub(crate) requested: Option<Arc<DrawnProblem>>,
    /// The product; several that differ of a kernel for lists of them.
    pub(crate) members: Vec<Member>,
    /// At most so many clusters share the work.
    pub(crate) clusters: u32,
    /// All elements of one factor are positive, and all of the other negative.
    pub(crate) negative: bool,
    /// Lines of the dense operands lie far apart.
    pub(crate) far: bool,
    /// Kernels list the work.
    pub(crate) listed: bool,
    /// Elements of the dense factor are drawn so much smaller: long sums stay in the range of an epilogue's functions.
    pub(crate) shrink: f64,
    /// Roughly how long a run takes, in multiplications and additions.
    pub(crate) effort: u64,
    /// The most schedules that the effort allows.
    pub(crate) schedules: usize,
}

impl ProductTrial {
    /// Problem number `index` for a kernel, from 0: the kinds in turn, varied from one round to the next.
    ///
    /// # Errors
    /// Sizes beyond 32 bits, which no kernel's blocks lead to.
    pub(crate) fn new(plan: &Plan, index: usize, of: Of) -> Result<Self, Refusal> {
        let (kinds, scale) = (Kind::all(plan).len(), Scale::of(plan));
        let (kind, round, seed) = (Kind::of(plan, index), index / kinds, index as u64);
        let sizes = match kind {
            Kind::Members => scale.members(),
            _ if plan.spec().batch.is_on() => {
                // The second is as the next round has it, and a little shorter: another pattern, other ends, other values.
                let [one, mut other] =
                    [Sizes::new(plan, &scale, kind, round)?, Sizes::new(plan, &scale, kind, round + 1)?];
                other.along = scale.shorter(kind, other.along);
                vec![one, other]
            }
            _ => vec![Sizes::new(plan, &scale, kind, round)?],
        };
        let member = |(at, sizes): (usize, &Sizes)| {
            sizes.member(plan, &scale, (kind, round + at), seed + OTHER_VALUES * at as u64)
        };
        let members = sizes.iter().enumerate().map(member).collect::<Result<Vec<_>, _>>()?;
        let first = &sizes[0];
        let effort = scale.effort_of((&first.lengths, first.last_rows), first.along).max(1);
        let sums = if scale.sparse_c { first.along } else { first.most() * scale.block.1 };
        // A column too many is the greatest of its row only where all others are negative.
        let negative =
            matches!(kind, Kind::Negative | Kind::LastPair) || scale.takes_greatest && matches!(kind, Kind::Edge(_));
        let most_schedules = if matches!(kind, Kind::Edge(_) | Kind::DevicePattern) { 1 } else { usize::MAX };
        Ok(Self {
            name: kind.name(),
            spec: *plan.spec(),
            of,
            requested: None,
            members,
            clusters: match (first.clusters, kind) {
                (Some(clusters), _) => clusters,
                // Both full rows, or both slices of one, are those of one cluster.
                (None, Kind::FullRow) if first.lengths.len() > 3 || scale.is_large() && scale.slices > 1 => 1,
                (None, kind) if scale.is_large() && !matches!(kind, Kind::Whole | Kind::FullRow) => 1,
                // The ring of a sampled product's work tiles is long.
                (None, Kind::Alone) if scale.sparse_c => 1,
                (None, _) => CLUSTERS,
            },
            negative,
            far: kind == Kind::FarLines,
            listed: kind == Kind::DevicePattern,
            shrink: match plan.spec().epilogue {
                None => 1.0,
                Some(_) if negative => shrink_of_one_sign(sums),
                Some(_) => shrink(sums),
            },
            effort,
            schedules: usize::try_from(EFFORT / effort).unwrap_or(usize::MAX).clamp(1, most_schedules),
        })
    }

    /// One problem of each kind that a kernel has, or `count` problems.
    ///
    /// # Errors
    /// As [`ProductTrial::new`].
    pub(crate) fn all(plan: &Plan, count: Option<usize>, of: Of) -> Result<Vec<Box<dyn Trial>>, Failure> {
        let count = count.unwrap_or_else(|| Kind::all(plan).len());
        (0..count).map(|index| Ok(Box::new(Self::new(plan, index, of)?) as Box<dyn Trial>)).collect()
    }

    /// A problem that was requested, in the kernel's blocks. `shrinks` makes its numbers smaller where an epilogue's functions
    /// would saturate.
    ///
    /// # Errors
    /// Bad input: a problem that does not exist in these blocks.
    pub(crate) fn of(problem: &DrawnProblem, plan: &Plan, shrinks: bool, of: Of) -> Result<Self, Failure> {
        let spec = plan.spec();
        let along = problem.sizes(spec).along;
        let member = |problem: &DrawnProblem| {
            let structure = problem.facts(spec)?.structure;
            Ok(Member { structure, n: along, seed: problem.seed })
        };
        let members = problem.list(spec)?.iter().map(member).collect::<Result<Vec<_>, Failure>>()?;
        let longest = match sparse_operand(spec.op) {
            Operand::C => along,
            _ => members.iter().map(|member| longest_sum(spec, &member.structure)).max().unwrap_or(0),
        };
        let effort = members.iter().map(|member| member.structure.executed_flops(along)).sum::<u64>().max(1);
        Ok(Self {
            name: "problem",
            spec: *spec,
            of,
            requested: Some(Arc::new(problem.clone())),
            members,
            clusters: DEFAULT_CLUSTERS,
            negative: false,
            far: false,
            listed: false,
            shrink: if shrinks && spec.epilogue.is_some() { shrink(longest) } else { 1.0 },
            effort,
            schedules: usize::try_from(EFFORT / effort).unwrap_or(usize::MAX).max(1),
        })
    }
}

impl Trial for ProductTrial {
    fn name(&self) -> &'static str {
        self.name
    }

    fn words(&self) -> String {
        let first = &self.members[0];
        let words = (self.of.words)(&self.spec, first.extents(&self.spec));
        let other = match self.members.len() {
            0 | 1 => String::new(),
            2 => ", and another one".to_owned(),
            many => format!(", and {} others", many - 1),
        };
        format!("{words}, {} blocks{other}", first.structure.nnzb())
    }

    fn is_listed(&self) -> bool {
        self.listed
    }

    fn has_several_blocks(&self) -> bool {
        let Member { structure, n, .. } = &self.members[0];
        structure.nnzb() > 1 && !self.far && *n > 1
    }

    fn effort(&self) -> u64 {
        self.effort
    }

    fn schedules(&self, all: &[Options]) -> Vec<Options> {
        // A problem that was requested may take as many instructions as it does.
        let max_steps = |options: &Options| match self.requested {
            Some(_) => Options::default().max_steps,
            None => options.max_steps,
        };
        let of = |options: &Options| Options { max_steps: max_steps(options), ..options.clone() };
        all.iter().take(self.schedules).map(of).collect()
    }

    fn prepare(&self, kernel: &SimulatedKernel, lists: &Arc<ListKernels>) -> Result<SimulatedKernel, Failure> {
        let kernel = kernel.product()?.clone().with_clusters(self.clusters).with_far_lines(self.far);
        let lists = self.listed.then(|| Arc::clone(lists));
        Ok(match lists {
            Some(lists) => kernel.with_device_pattern(lists)?.into(),
            None => kernel.into(),
        })
    }

    fn draw(&self, rows: RowChoice) -> Result<Box<dyn Drawn>, Failure> {
        (self.of.draw)(self, rows)
    }
}

/// Added to the seed from one product of a list to the next.
const OTHER_VALUES: u64 = 1 << 20;

/// A power of two by which sums of so many products are about as large as those of 128.
pub(crate) fn shrink(products: usize) -> f64 {
    let ratio = (products as f64 / 128.0).max(1.0);
    (-(ratio.log2() / 2.0).round()).exp2()
}

/// A power of two by which the sum of so many products of one sign is a few units: functions of an epilogue that vanish far
/// below zero do not yet, and there is something to compare.
fn shrink_of_one_sign(products: usize) -> f64 {
    let ratio = (products as f64 / 6.0).max(1.0);
    (-ratio.log2().round()).exp2()
}
