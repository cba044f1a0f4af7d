//! The problems that kernels are checked on: small, each of a kind that kernels get wrong, sized by the kernel's plan.
//!
//! Every ring goes round three times, keys end at every place where a kernel asks for the last one, partial blocks begin a tile
//! and end it, and vectors of a score differ in neighbouring elements, heads and problems.

mod by_blocks;
mod edges;
mod gradient;

use std::sync::Arc;

use bsr_codegen::{Dtype, Plan, SplitK};
use bsr_runtime::attention::{AttentionError, AttentionWork, HostVector, Sharing, fault_of_lengths, fault_of_lists};
use bsr_runtime::e4m3;
use bsr_runtime::simulated::Options;
use bsr_runtime::simulated::lists::ListKernels;
use half::{bf16, f16};

use super::Problem;
use super::problem::{factors, lengths, sinks};
use super::simulate::Tensors;
use crate::Failure;
use crate::kinds::{EFFORT, Trial};
use crate::simulate::{Drawn, SimulatedKernel};
use crate::verify::RowChoice;
use by_blocks::Sizes;
pub(crate) use gradient::{GradientTrial, trials as trials_of_gradient};

/// CTAs that share the work, of one problem after the other.
const CTAS: [u32; 3] = [3, 1, 7];
/// CTAs for each tile where the host decides whether they share its keys.
const SHARING: u32 = 3;
/// Multiplications and additions that take as long as the exponential of one product.
const EXPONENTIAL: u64 = 256;
/// Multiplications and additions of a warp instruction, far fewer than there are.
const INSTRUCTION: u64 = 100;

/// A problem that a kernel is checked on.
#[derive(Clone, Debug)]
pub(crate) struct AttentionTrial {
    plan: Plan,
    /// Its kind.
    name: &'static str,
    /// What is attended to.
    problem: Problem,
    /// At most so many CTAs share the work.
    ctas: u32,
    /// Whether LSE, the logarithm of each row's sum of exponentials, is computed.
    lse: bool,
    /// Whether kernels list the work, as of a mask on a GPU.
    listed: bool,
    /// Most schedules that it is worth, and the first of them.
    schedules: (usize, usize),
}

/// Problems of every kind. Those of another `round` have other sizes and values.
///
/// # Errors
/// [`AttentionError::Operation`] for a plan of another operation.
pub(crate) fn trials(plan: &Plan, seed: u64, round: usize) -> Result<Vec<AttentionTrial>, AttentionError> {
    let spec = plan.spec();
    let tiles = plan.attention_tiles().ok_or(AttentionError::Operation(spec.op))?;
    let sizes = Sizes::new(plan, &tiles, seed, round);
    // Parts that a tile's keys are divided into, which have as many steps as a tile of another kernel.
    let parts = if let SplitK::Parts(parts) = spec.split { parts } else { plan.cluster() } as usize;
    let of = |Common { name, problem, ctas, schedules }: Common| AttentionTrial {
        name,
        ctas,
        schedules,
        ..AttentionTrial::new(plan, problem)
    };
    let mut all: Vec<AttentionTrial> = of_patterns(&sizes, parts)?.into_iter().map(of).collect();
    if matches!(spec.split, SplitK::Auto | SplitK::Long) {
        let of = |name, problem: Problem| {
            let ctas = SHARING * problem.shape.queries.div_ceil(tiles.rows as usize) as u32;
            AttentionTrial { name, ctas, ..AttentionTrial::new(plan, problem) }
        };
        let wide = sizes.worth_sharing(SHARING as usize);
        all.extend([of("passed on", sizes.apart(wide)?), of("divided", sizes.long(SHARING as usize, true)?)]);
    }
    let problem = sizes.of(sizes.ragged(), [1, 1, 1], "all", &|_, _| true)?;
    all.push(AttentionTrial { name: "no LSE", lse: false, ..AttentionTrial::new(plan, problem) });
    all.extend(of_edges(&sizes, parts, spec.score.is_some())?.into_iter().map(of));
    // Kernels on the GPU list no steps of neighbouring blocks, and none in parameters.
    if tiles.joined() == 1 && spec.work_list.is_none() {
        all.push(AttentionTrial {
            name: "GPU lists",
            listed: true,
            schedules: (1, 0),
            ..AttentionTrial::new(plan, sizes.listed()?)
        });
    }
    if let Some(bytes) = spec.work_list {
        let fits = |of: &AttentionTrial| {
            let work = AttentionWork::new(&tiles, &of.problem.shape, &of.problem.mask, of.ctas);
            work.is_ok_and(|work| work.parameter_bytes() <= bytes as usize)
        };
        all.retain(fits);
    }
    for (number, AttentionTrial { problem, .. }) in all.iter_mut().enumerate() {
        problem.vectors = HostVector::varied(spec, &problem.shape, number + round);
        problem.sinks = problem.sinks.take().map(|_| sinks(problem.shape.heads, number + round));
        let sharing = [Sharing::ByBoth, Sharing::ByHead, Sharing::All][(number + round) % 3];
        problem.factors = factors(spec, &problem.shape, sharing);
        problem.lengths = problem.lengths.take().map(|all| lengths(all.len(), all[0], number + round));
    }
    Ok(all)
}

impl AttentionTrial {
    /// The name of a problem that was requested.
    const REQUESTED: &'static str = "problem";

    /// A problem that was requested.
    pub(crate) fn new(plan: &Plan, problem: Problem) -> Self {
        let (plan, name) = (plan.clone(), Self::REQUESTED);
        Self { plan, name, problem, ctas: CTAS[0], lse: true, listed: false, schedules: (usize::MAX, 0) }
    }
}

impl Trial for AttentionTrial {
    fn name(&self) -> &'static str {
        self.name
    }

    fn words(&self) -> String {
        format!("{}; {}", self.problem.words(), self.problem.mask_words())
    }

    fn is_listed(&self) -> bool {
        self.listed
    }

    fn has_several_blocks(&self) -> bool {
        self.problem.mask.stored() > 1
    }

    /// Divided keys are computed twice.
    fn effort(&self) -> u64 {
        let Problem { shape, depth, .. } = &self.problem;
        let launches = if self.plan.spec().split.is_on() { 2 } else { 1 };
        let products = 2 * (depth + shape.columns) as u64 + EXPONENTIAL;
        (launches * products * self.problem.pairs()).max(1)
    }

    fn schedules(&self, all: &[Options]) -> Vec<Options> {
        worth(all, self.effort(), self.schedules)
    }

    /// Of a problem that was made for the check, work that kernels list must be the host's.
    fn fault_of_lists(&self, lists: &ListKernels) -> Result<Option<String>, Failure> {
        let tiles = self.plan.attention_tiles().filter(|_| self.name != Self::REQUESTED);
        let Some(tiles) = tiles else { return Ok(None) };
        let Problem { shape, mask, lengths, .. } = &self.problem;
        Ok(match lengths {
            Some(lengths) => fault_of_lengths(lists, &tiles, shape, lengths, self.ctas)?,
            None => fault_of_lists(lists, &tiles, shape, mask, self.ctas)?,
        })
    }

    fn prepare(&self, kernel: &SimulatedKernel, lists: &Arc<ListKernels>) -> Result<SimulatedKernel, Failure> {
        let kernel = kernel.attention()?.clone().with_ctas(self.ctas);
        let kernel = if self.lse { kernel } else { kernel.without_lse() };
        Ok(if self.listed { kernel.with_device_mask(Arc::clone(lists)) } else { kernel }.into())
    }

    fn draw(&self, rows: RowChoice) -> Result<Box<dyn Drawn>, Failure> {
        let most = rows.most(usize::MAX);
        let (spec, problem) = (self.plan.spec(), &self.problem);
        Ok(match (spec.a, spec.out) {
            (Dtype::E4M3, Dtype::BF16) => Box::new(Tensors::<e4m3, bf16>::new(spec, problem, most)),
            (Dtype::E4M3, _) => Box::new(Tensors::<e4m3, f16>::new(spec, problem, most)),
            (Dtype::BF16, _) => Box::new(Tensors::<bf16, bf16>::new(spec, problem, most)),
            _ => Box::new(Tensors::<f16, f16>::new(spec, problem, most)),
        })
    }
}

/// The schedules that a problem of such an effort is worth, with room for a long one's instructions.
fn worth(all: &[Options], effort: u64, (most, first): (usize, usize)) -> Vec<Options> {
    let few = usize::try_from(EFFORT / effort).unwrap_or(usize::MAX).clamp(1, most);
    let of = |options: &Options| Options { max_steps: options.max_steps.max(effort / INSTRUCTION), ..options.clone() };
    let first = first % all.len().max(1);
    all.iter().cycle().skip(first).take(few.min(all.len())).map(of).collect()
}

/// A problem that both an attention and its gradient are checked on.
struct Common {
    name: &'static str,
    problem: Problem,
    ctas: u32,
    schedules: (usize, usize),
}

/// Those by their blocks, of which tiles have `parts`.
fn of_patterns(sizes: &Sizes<'_>, parts: usize) -> Result<Vec<Common>, AttentionError> {
    let mut kinds = sizes.of_blocks(parts)?;
    kinds.extend([
        ("apart", sizes.apart(parts)?),
        ("long", sizes.long(parts, false)?),
        ("short", sizes.short(parts)?),
        ("begins", sizes.begins(parts)?),
        // So short that a producer is two tiles ahead.
        ("single", sizes.of((1, 1), [by_blocks::TILES, 1, 1], "one query, one key", &|_, _| true)?),
    ]);
    let of = |((name, problem), ctas): ((&'static str, Problem), u32)| {
        let alone = ["short", "begins", "single"].contains(&name);
        Common { name, problem, ctas: if alone { 1 } else { ctas }, schedules: (usize::MAX, 0) }
    };
    Ok(kinds.into_iter().zip(CTAS.into_iter().cycle()).map(of).collect())
}

/// Those of one edge: where keys end, and under a score the diagonal.
fn of_edges(sizes: &Sizes<'_>, parts: usize, scored: bool) -> Result<Vec<Common>, AttentionError> {
    let diagonal = scored.then(|| sizes.diagonal(parts)).transpose()?;
    let diagonal = diagonal.map(|problem| Common { name: "diagonal", problem, ctas: CTAS[0], schedules: (2, 0) });
    let ends = sizes.remainders(parts)?.into_iter().enumerate();
    let ends = ends.map(|(at, problem)| Common { name: "remainders", problem, ctas: 2, schedules: (1, at) });
    Ok(diagonal.into_iter().chain(ends).collect())
}

#[cfg(test)]
mod tests;
