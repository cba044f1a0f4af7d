//! Attentions of workloads: their shape and mask, and an instance that is small enough for the simulator.

use bsr_codegen::{Dtype, KernelSpec, Plan};
use bsr_runtime::attention::{
    HeadOrder, HostVector, Mask, ScoreInputs, Shape, SimulatedAttention, Tensor, reference_of,
};
use bsr_runtime::simulated::Options;
use bsr_runtime::{Element, Pattern};
use half::{bf16, f16};

use super::draw::{pattern, refused};
use super::sim::judge;
use super::{Trouble, structure};
use crate::problem::Heads;
use crate::{Source, Workload};

/// Queries and keys of an instance, at least.
const LEAST_ROWS: usize = 384;
/// Problems and heads of an instance.
const LEAST_HEADS: usize = 2;
/// The number that every `f32` of a score is given.
const NUMBER: f32 = 0.5;

/// The shape of a workload's attention, and which blocks are computed. Where the kernel has a score, it is computed in all
/// blocks, of a causal pattern in those on the diagonal alone.
///
/// # Errors
/// A pattern that cannot be had.
pub fn attention_of(workload: &Workload) -> Result<(Shape, Mask), Trouble> {
    let spec = workload.facts.spec(64);
    let Heads { batch, heads, key_heads } = workload.source.heads();
    let (queries, keys, columns) = (workload.m, workload.n, spec.bn as usize);
    let shape = Shape { batch, heads, key_heads, queries, keys, columns };
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
    let Shape { batch, heads, key_heads, queries, keys, columns } = shape;
    let depth = spec.score_depth() as usize;
    let tensor = |heads, rows, columns, more| {
        Tensor::<T>::normal([batch, heads, rows, columns], HeadOrder::HeadsFirst, workload.seed.wrapping_add(more))
    };
    let tensors =
        [tensor(heads, queries, depth, 0), tensor(key_heads, keys, depth, 1), tensor(key_heads, keys, columns, 2)];
    let (scalars, vectors) = (numbers(spec), HostVector::examples(spec, &shape));
    let inputs = ScoreInputs::new((depth as f32).sqrt().recip()).scalars(&scalars).vectors(&vectors);
    let ptx = plan.ptx();
    let kernel = SimulatedAttention::new(plan, ptx.text(), ptx.entry()).map_err(refused)?;
    let options = Options { seed: workload.seed, ..Options::default() };
    let (output, _, report) = kernel.run(tensors.each_ref(), &mask, inputs, &options).map_err(refused)?;
    let rows = (0..shape.rows()).map(|at| [at / (heads * queries), at / queries % heads, at % queries]);
    let right = reference_of(&shape, &mask, tensors.each_ref(), spec.score, &inputs, rows);
    let found: Vec<f64> = output.data().iter().map(|value| value.to_f64()).collect();
    judge(&report, &found, &right.output, tolerance(spec.a))
}

/// Numbers for the `f32` of a score.
fn numbers(spec: &KernelSpec) -> Vec<f32> {
    let inputs = spec.score.map_or(&[][..], |score| score.program().inputs());
    inputs.iter().filter(|input| !input.kind.is_vector()).map(|_| NUMBER).collect()
}

/// The greatest relative error of a right result: probabilities and O are rounded to the type.
fn tolerance(dtype: Dtype) -> f64 {
    if dtype == Dtype::BF16 { 5e-3 } else { 1e-3 }
}
