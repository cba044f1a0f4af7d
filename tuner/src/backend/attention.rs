//! Attentions of workloads: their shape and mask, and an instance that is small enough for the simulator.

use bsr_codegen::{Dtype, Plan};
use bsr_runtime::attention::{Mask, Problem, Shape, SimulatedAttention};
use bsr_runtime::simulated::Options;
use bsr_runtime::{Element, Pattern};
use half::{bf16, f16};

use super::draw::{pattern, refused};
use super::sim::check_findings;
use super::{Trouble, structure};
use crate::problem::Heads;
use crate::{Source, Verdict, Workload};

/// Queries and keys of an instance, at least.
const LEAST_ROWS: usize = 384;
/// Problems and heads of an instance.
const LEAST_HEADS: usize = 2;

/// The shape of a workload's attention.
///
/// # Errors
/// Sizes that no attention has.
pub fn shape_of(workload: &Workload) -> Result<Shape, Trouble> {
    let Heads { batch, heads, key_heads } = workload.source.heads();
    let columns = workload.facts.spec(64).bn as usize;
    let shape = Shape { batch, heads, key_heads, queries: workload.m, keys: workload.n, columns };
    shape.check(None).map(|()| shape).map_err(refused)
}

/// The shape of a workload's attention, and which blocks are computed. Where the kernel has a score, it is computed in all
/// blocks, of a causal pattern in those on the diagonal alone.
///
/// # Errors
/// As [`shape_of`], and a pattern that cannot be had.
pub fn attention_of(workload: &Workload) -> Result<(Shape, Mask), Trouble> {
    let shape = shape_of(workload)?;
    let spec = workload.facts.spec(64);
    let structure = structure(workload)?;
    let (bm, bk) = structure.block();
    let is_causal = match &workload.source {
        Source::Mask { pattern: words, .. } => pattern(words)? == Pattern::Causal,
        _ => false,
    };
    let is_partial =
        |row: usize, column: usize| spec.score.is_some() && (!is_causal || (column + 1) * bk > row * bm + 1);
    Ok((shape, Mask::of_structure(&structure, is_partial).map_err(refused)?))
}

/// What is simulated in place of a workload: fewer heads, and fewer queries and keys.
pub(super) fn instance(workload: &Workload) -> Workload {
    let (bm, bk) = workload.facts.block();
    let Heads { batch, heads, key_heads } = workload.source.heads();
    let mut small = workload.clone();
    let heads = Heads {
        batch: batch.min(LEAST_HEADS),
        heads: heads.min(LEAST_HEADS),
        key_heads: if key_heads < heads { 1 } else { heads.min(LEAST_HEADS) },
    };
    (small.m, small.n) = (small.m.min(LEAST_ROWS.max(2 * bm)), small.n.min(LEAST_ROWS.max(2 * bk)));
    if let Source::Mask { pattern: words, heads: of } = &mut small.source {
        *of = heads;
        if let Ok(Pattern::TopK(count)) = pattern(words) {
            let (blocks, all) = (small.n.div_ceil(bk), workload.n.div_ceil(bk).max(1));
            *words = Pattern::TopK((count * blocks).div_ceil(all).clamp(1, blocks)).to_string();
        }
    }
    small
}

/// Computes an instance on the simulator: the relative error of a right result.
///
/// # Errors
/// What the simulator finds, and wrong results.
pub(super) fn simulate(plan: &Plan, workload: &Workload) -> Result<f64, Trouble> {
    match plan.spec().a {
        Dtype::BF16 => simulate_in::<bf16>(plan, workload),
        _ => simulate_in::<f16>(plan, workload),
    }
}

fn simulate_in<T: Element>(plan: &Plan, workload: &Workload) -> Result<f64, Trouble> {
    let spec = plan.spec();
    let (shape, mask) = attention_of(workload)?;
    let problem = Problem { seed: workload.seed, ..Problem::new(spec, shape, mask, "") };
    let tensors = problem.tensors::<T>();
    let ptx = plan.ptx();
    let kernel = SimulatedAttention::new(plan, ptx.text(), ptx.entry()).map_err(refused)?;
    let options = Options { seed: workload.seed, ..Options::default() };
    let run = kernel.run(tensors.each_ref(), &problem.mask, problem.inputs(), &options);
    let (output, sums, report) = run.map_err(refused)?;
    check_findings(&report)?;
    let wanted = problem.wanted(spec, &tensors, usize::MAX);
    wanted.verify(&output, &sums).map_err(|wrong| Trouble::with(Verdict::Wrong, 0, wrong.to_string()))
}
