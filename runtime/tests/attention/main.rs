//! Attention: every kernel of a table on the simulator, without a finding, and on a real GPU; results against an f64
//! reference.
//!
//! Without a GPU its test says SKIPPED on stderr and passes; with `BSR_REQUIRE_GPU` set it fails instead.
#![allow(clippy::unwrap_used)]

mod accuracy;
mod block_factors;
mod clusters;
#[path = "../device/mod.rs"]
mod device;
#[path = "../drawn/mod.rs"]
mod drawn;
mod eight_bit_pages;
mod eight_bits;
mod gpu;
mod gpu_pages;
mod gpu_repeated;
mod gradient;
mod joined;
mod lists;
mod masks;
mod refusals;
mod score_gradients;
mod sequences;
mod simulated;
mod table;
mod warps;
mod work;
mod workspace;

use bsr_codegen::{Dtype, Plan, Scale};
use bsr_runtime::Element;
use bsr_runtime::attention::{Attended, Factors, ScoreInputs, Shape, Tensor, reference_of};
use table::Case;

/// Q, K and V of a case, and the sinks of a kernel that has them: the logarithm of a sum of keys, less, more, and none.
struct Operands<T> {
    tensors: [Tensor<T>; 3],
    scale: f32,
    sinks: Option<Vec<f32>>,
    factors: Option<Factors>,
}

impl<T: Element> Operands<T> {
    fn new(case: &Case) -> Self {
        let Shape { batch, heads, key_heads, queries, keys, columns } = case.shape;
        let spec = *plan(case).spec();
        let depth = spec.score_depth() as usize;
        let tensor = |heads, rows, columns, seed| Tensor::normal([batch, heads, rows, columns], case.order, seed);
        let tensors =
            [tensor(heads, queries, depth, 1), tensor(key_heads, keys, depth, 2), tensor(key_heads, keys, columns, 3)];
        let sink = |head: usize| [5.0, -1.5, 9.0, f32::NEG_INFINITY, 0.25][head % 5];
        let sinks = spec.sinks.is_on().then(|| (0..heads).map(sink).collect());
        // Of the tensors, of heads, or of the heads of each problem.
        let count = [1, key_heads, batch * key_heads][queries % 3];
        let factor = |first: usize| (first..first + count).map(|at| [1.0, 0.6, 1.5, 0.85][at % 4]).collect();
        let factors = match spec.scale {
            Scale::Unscaled => None,
            Scale::Block => Some(block_factors::factors(&spec, &case.shape)),
            _ => Some(Factors::new(factor(0), factor(1), factor(2)).unwrap()),
        };
        Self { tensors, scale: case.steepness * (depth as f32).sqrt().recip(), sinks, factors }
    }

    /// What a case reads beside its tensors.
    fn inputs<'c>(&'c self, case: &'c Case) -> ScoreInputs<'c> {
        let inputs = ScoreInputs::new(self.scale).scalars(case.scalars).vectors(&case.vectors);
        inputs.sinks(self.sinks.as_deref()).lengths(case.lengths.as_deref()).factors(self.factors.as_ref())
    }

    fn each(&self) -> [&Tensor<T>; 3] {
        self.tensors.each_ref()
    }
}

fn plan(case: &Case) -> Plan {
    let text = format!("op = attention, {}", case.spec);
    Plan::new(&text.parse().unwrap()).unwrap_or_else(|error| panic!("{}: {error}", case.spec))
}

/// What is right, in f64.
fn expected<T: Element>(case: &Case, operands: &Operands<T>) -> Attended {
    let (score, inputs) = (plan(case).spec().score, operands.inputs(case));
    reference_of(&case.shape, &case.mask, operands.each(), score, &inputs, rows(case))
}

/// Problem, head and query of every row.
fn rows(case: &Case) -> impl Iterator<Item = [usize; 3]> {
    let Shape { heads, queries, .. } = case.shape;
    (0..case.shape.rows()).map(move |place| [place / (heads * queries), place / queries % heads, place % queries])
}

/// What is wrong with O and the logarithms of the sums.
fn wrong<T: Element, O: Element>(
    case: &Case,
    operands: &Operands<T>,
    (output, sums): (&Tensor<O>, &[f32]),
) -> Result<f64, String> {
    let (score, inputs) = (plan(case).spec().score, operands.inputs(case));
    let expected =
        bsr_trial::attention::expected((&case.shape, &case.mask), operands.each(), score, &inputs, usize::MAX);
    let verdict = bsr_trial::attention::verdict(output, (!sums.is_empty()).then_some(sums), &expected);
    let verdict = verdict.map_err(|failure| failure.to_string())?;
    verdict.verify(&case.spec, expected.tolerance(None)).map_err(|wrong| wrong.to_string())?;
    let error = verdict.comparison.relative;
    // Probabilities are rounded to the type once, and so is the result.
    let bound = match T::DTYPE {
        Dtype::E4M3 => 5e-2,
        Dtype::BF16 => 4.5e-3,
        _ => 6e-4,
    };
    if error < bound { Ok(error) } else { Err(format!("a relative error of {error:.1e}, beyond {bound:.1e}")) }
}
