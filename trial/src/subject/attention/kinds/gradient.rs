//! The problems that kernels of a gradient are checked on: those of an attention as the kernel sees them, by queries or by keys.

use std::sync::Arc;

use bsr_codegen::{Dtype, GradientSide, Op, Plan};
use bsr_runtime::attention::{AttentionError, HostVector, Shape};
use bsr_runtime::simulated::Options;
use bsr_runtime::simulated::lists::ListKernels;
use half::{bf16, f16};

use super::super::Problem;
use super::super::gradient_simulate::Gradients;
use super::by_blocks::Sizes;
use super::{CTAS, Common, of_edges, of_patterns, worth};
use crate::Failure;
use crate::kinds::Trial;
use crate::simulate::{Drawn, SimulatedKernel};
use crate::verify::RowChoice;

/// Multiplications and additions that take as long as P and dS of one pair.
const PAIR: u64 = 512;

/// A problem that a kernel of a gradient is checked on.
#[derive(Clone, Debug)]
pub(crate) struct GradientTrial {
    plan: Plan,
    name: &'static str,
    problem: Problem,
    ctas: u32,
    /// Most schedules that it is worth, and the first of them.
    schedules: (usize, usize),
}

/// Problems of every kind. Those of another `round` have other sizes and values.
///
/// # Errors
/// [`AttentionError::Operation`] for a plan of another operation.
pub(crate) fn trials(plan: &Plan, seed: u64, round: usize) -> Result<Vec<GradientTrial>, AttentionError> {
    let spec = plan.spec();
    let form = plan.gradient_tiles().ok_or(AttentionError::Operation(spec.op))?;
    let sizes = Sizes::new(plan, &form.tiles, seed, round);
    let of = |Common { name, problem, ctas, schedules }: Common| {
        let problem = match form.side {
            GradientSide::Keys => transposed(problem),
            // Keys beyond the last one count where their P is beyond f32 alone: their K is 0.
            GradientSide::Queries => Problem { is_low: name == "remainders", ..problem },
        };
        GradientTrial { name, ctas, schedules, ..GradientTrial::new(plan, problem) }
    };
    let edges = of_edges(&sizes, 1, spec.score.is_some())?;
    let mut all: Vec<GradientTrial> = of_patterns(&sizes, 1)?.into_iter().chain(edges).map(of).collect();
    for (number, GradientTrial { problem, .. }) in all.iter_mut().enumerate() {
        problem.vectors = HostVector::varied(spec, &problem.shape, number + round);
    }
    Ok(all)
}

/// The problem with queries for keys and keys for queries; its vectors are still those of before.
fn transposed(problem: Problem) -> Problem {
    let (mask, Shape { queries, keys, .. }) = (problem.mask.transposed(), problem.shape);
    Problem { mask, shape: Shape { queries: keys, keys: queries, ..problem.shape }, ..problem }
}

impl GradientTrial {
    /// A problem that was requested.
    pub(crate) fn new(plan: &Plan, problem: Problem) -> Self {
        Self { plan: plan.clone(), name: "problem", problem, ctas: CTAS[0], schedules: (usize::MAX, 0) }
    }
}

impl Trial for GradientTrial {
    fn name(&self) -> &'static str {
        self.name
    }

    fn words(&self) -> String {
        format!("{}; {}", self.problem.words(), self.problem.mask_words())
    }

    fn is_listed(&self) -> bool {
        false
    }

    fn has_several_blocks(&self) -> bool {
        self.problem.mask.stored() > 1
    }

    fn effort(&self) -> u64 {
        let Shape { batch, heads, .. } = self.problem.shape;
        let pairs = self.problem.mask.pairs(batch, heads);
        (self.problem.gradient_flops(self.plan.spec().op) + PAIR * pairs).max(1)
    }

    fn schedules(&self, all: &[Options]) -> Vec<Options> {
        worth(all, self.effort(), self.schedules)
    }

    fn prepare(&self, kernel: &SimulatedKernel, _: &Arc<ListKernels>) -> Result<SimulatedKernel, Failure> {
        Ok(kernel.gradient()?.clone().with_ctas(self.ctas).into())
    }

    fn draw(&self, rows: RowChoice) -> Result<Box<dyn Drawn>, Failure> {
        let most = rows.most(usize::MAX);
        let (spec, problem) = (self.plan.spec(), &self.problem);
        debug_assert!(matches!(spec.op, Op::AttentionDq | Op::AttentionDkv));
        Ok(match spec.a {
            Dtype::BF16 => Box::new(Gradients::<bf16>::new(spec, problem, most)?),
            _ => Box::new(Gradients::<f16>::new(spec, problem, most)?),
        })
    }
}
