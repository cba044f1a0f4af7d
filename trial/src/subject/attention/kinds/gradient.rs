//! The problems that kernels of a gradient are checked on: those of an attention as the kernel sees them, by queries or by keys.

use std::sync::Arc;

use bsr_codegen::{Dtype, GradientSide, Op, Plan};
use bsr_runtime::attention::{AttentionError, Shape};
use bsr_runtime::simulated::Options;
use bsr_runtime::simulated::lists::ListKernels;
use half::{bf16, f16};

use super::super::Problem;
use super::super::gradient_simulate::Gradients;
use super::by_blocks::{Sizes, TILES};
use super::{CTAS, INSTRUCTION};
use crate::Failure;
use crate::kinds::{EFFORT, Trial};
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
    let of_side = |problem: Problem| if form.side == GradientSide::Keys { transposed(problem) } else { problem };
    let mut kinds = sizes.of_blocks(1)?;
    kinds.extend([
        ("apart", sizes.apart(1)?),
        ("long", sizes.long(1, false)?),
        ("short", sizes.short(1)?),
        ("begins", sizes.begins(1)?),
        ("single", sizes.of((1, 1), [TILES, 1, 1], "one query, one key", &|_, _| true)?),
    ]);
    let mut all: Vec<GradientTrial> = kinds
        .into_iter()
        .zip(CTAS.into_iter().cycle())
        .map(|((name, problem), ctas)| {
            let alone = ["short", "begins", "single"].contains(&name);
            GradientTrial { name, ctas: if alone { 1 } else { ctas }, ..GradientTrial::new(plan, of_side(problem)) }
        })
        .collect();
    let ends = sizes.remainders(1)?.into_iter().enumerate();
    all.extend(ends.map(|(at, problem)| GradientTrial {
        name: "remainders",
        ctas: 2,
        schedules: (1, at),
        ..GradientTrial::new(plan, of_side(problem))
    }));
    if spec.score.is_some() {
        let problem = of_side(sizes.diagonal(1)?);
        all.push(GradientTrial { name: "diagonal", schedules: (2, 0), ..GradientTrial::new(plan, problem) });
    }
    Ok(all)
}

/// The problem with queries for keys and keys for queries.
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

    /// With room for a long problem's instructions.
    fn schedules(&self, all: &[Options]) -> Vec<Options> {
        let (effort, (most, first)) = (self.effort(), self.schedules);
        let few = usize::try_from(EFFORT / effort).unwrap_or(usize::MAX).clamp(1, most);
        let of =
            |options: &Options| Options { max_steps: options.max_steps.max(effort / INSTRUCTION), ..options.clone() };
        let first = first % all.len().max(1);
        all.iter().cycle().skip(first).take(few.min(all.len())).map(of).collect()
    }

    fn prepare(&self, kernel: &SimulatedKernel, _: &Arc<ListKernels>) -> Result<SimulatedKernel, Failure> {
        Ok(kernel.gradient()?.clone().with_ctas(self.ctas).into())
    }

    fn draw(&self, rows: RowChoice) -> Result<Box<dyn Drawn>, Failure> {
        let most = if let RowChoice::Number(rows) = rows { rows } else { usize::MAX };
        let (spec, problem) = (self.plan.spec(), &self.problem);
        debug_assert!(matches!(spec.op, Op::AttentionDq | Op::AttentionDkv));
        Ok(match spec.a {
            Dtype::BF16 => Box::new(Gradients::<bf16>::new(spec, problem, most)?),
            _ => Box::new(Gradients::<f16>::new(spec, problem, most)?),
        })
    }
}
