//! Gradients of a score's numbers and vectors: the f64 reference against finite differences, and what both kernels sum on the
//! simulator and on a GPU against the reference.

use bsr_codegen::Dtype;
use bsr_runtime::attention::{
    HeadOrder, HostVector, Mask, Saved, ScoreInputs, ScoreSums, Shape, Sharing, Tensor, gradients_of_score,
    reference_of,
};
use half::{bf16, f16};

use crate::device::device;
use crate::gradient::{
    Case, all_right, by_head, case, causal, gaps, launch, mixed, near, none, partial, simulate, spec, varied,
};

/// Slopes by head; a bias by query, by key, and by both.
const SLOPES: &str = "bm = 64, bn = 64, bk = 64, score = \"|slope: Heads<f32>| if i >= j { s * scale - slope * abs(i - j) } else { -inf }\"";
const BY_QUERY: &str = "bm = 128, bn = 64, bk = 64, dtype = bf16, score = \"|a: Rows<bf16>| s * scale + a\"";
const BY_KEY: &str = "bm = 64, bn = 64, bk = 128, score = \"|b: Cols<f16>| s * scale + b\"";
const BY_BOTH: &str =
    "bm = 64, bn = 128, bk = 64, dtype = bf16, score = \"|x: f32, a: Rows<f32>, b: Cols<f32>| s * scale + x * a * b\"";
/// A soft cap whose number, whose slope by head and whose bias have gradients, under a window.
const CAPPED: &str = "bm = 64, bn = 64, bk = 64, dtype = bf16, score = \"|before: f32, cap: f32, a: Heads<f32>, b: Cols<f32>| if i < j { -inf \
                      } else if i - j > before { -inf } else { a * cap * tanh(s * scale / cap) + b }\"";
/// Temperatures by query and by key, of which there are none beyond the last one: the score is no number there.
const TEMPERATURES: &str =
    "bm = 128, bn = 128, bk = 128, score = \"|t: Rows<f32>, u: Cols<f32>| s * scale / t + log(t) - 1 / u\"";
/// Many functions, and a choice by a parameter.
const CURVED: &str = "bm = 64, bn = 64, bk = 128, dtype = bf16, score = \"|x: f32, t: Rows<bf16>, b: Cols<f32>| { let u = s * scale / t; if u > x { \
                      silu(u) - exp(-u * u) * b } else { gelu(u) / (2 + u * u) + sin(x * u) + max(b, 1) } }\"";

fn some(of: Mask) -> Mask {
    let mut lists = of.lists().to_vec();
    lists.iter_mut().for_each(|list| list.partial.fill(true));
    let sharing = if lists.len() == 1 { Sharing::All } else { Sharing::ByHead };
    Mask::new(of.sizes(), of.block(), sharing, lists).unwrap()
}

/// Ragged lengths, grouped heads, rows and columns of blocks without any, whole blocks among partial ones, patterns by head.
fn cases() -> Vec<Case> {
    let mut cases = vec![
        case(SLOPES, [2, 4, 2], [200, 200], causal),
        case(BY_QUERY, [1, 2, 1], [300, 170], partial),
        case(BY_KEY, [1, 4, 2], [150, 300], partial),
        case(BY_KEY, [1, 4, 1], [70, 200], mixed),
        case(BY_BOTH, [2, 2, 1], [130, 190], mixed),
        case(BY_KEY, [1, 4, 1], [390, 330], |sizes, block| some(gaps(sizes, block))),
        case(BY_QUERY, [1, 1, 1], [390, 330], |sizes, block| some(gaps(sizes, block))),
        case(BY_BOTH, [1, 4, 2], [190, 130], |sizes, block| some(by_head(sizes, block))),
        case(BY_BOTH, [1, 2, 1], [70, 70], none),
        case(CAPPED, [1, 4, 2], [200, 170], near),
        case(TEMPERATURES, [2, 2, 1], [150, 210], partial),
        case(TEMPERATURES, [1, 1, 1], [1, 140], partial),
        case(CURVED, [1, 2, 2], [200, 150], mixed),
    ];
    varied(&mut cases);
    cases[9].problem.scalars = vec![70.0, 2.0];
    cases.iter_mut().for_each(|case| case.with_score = true);
    cases
}

#[test]
fn the_kernels_sum_them_on_the_simulator() {
    all_right(&cases(), |number, case| match spec(case.spec).a {
        Dtype::BF16 => simulate::<bf16>(number, case),
        _ => simulate::<f16>(number, case),
    });
}

#[test]
fn the_kernels_sum_them_on_a_gpu() {
    let Some((_turn, device)) = device() else { return };
    all_right(&cases(), |_, case| match spec(case.spec).a {
        Dtype::BF16 => launch::<bf16>(&device, case),
        _ => launch::<f16>(&device, case),
    });
}

/// The loss is the sum of dO * O and of dLSE * LSE. Vectors are shared in every way.
#[test]
fn they_are_the_slopes_of_a_loss() {
    let shape = Shape { batch: 2, heads: 4, key_heads: 2, queries: 20, keys: 27, columns: 5 };
    let mask = some(Mask::random((20, 27), (8, 8), 0.7, 3).unwrap());
    let text = "|cap: f32, x: f32, a: Rows<f32>, b: Cols<f32>, c: Heads<f32>, d: Cols<f32>, e: Rows<f32>| if i + 15 >= j { cap * \
                tanh(s * scale * a / cap) + x * b * c - sin(d * e) } else { -inf }";
    let spec = spec(&format!("bm = 64, bn = 64, bk = 64, score = \"{text}\""));
    let scalars = [1.5, 0.75];
    let vector = |len: usize, seed: u64, sharing: Sharing| {
        let drawn = Tensor::<f32>::normal([1, 1, 1, len * sharing.patterns(2, 4)], HeadOrder::HeadsFirst, seed);
        (drawn.into_data().iter().map(|value| value + 1.5).collect::<Vec<f32>>(), sharing)
    };
    let vectors = [
        vector(20, 10, Sharing::ByBoth),
        vector(27, 11, Sharing::All),
        vector(1, 12, Sharing::ByHead),
        vector(27, 13, Sharing::ByHead),
        vector(20, 14, Sharing::ByProblem),
    ];
    let tensor =
        |heads, rows, columns, seed| Tensor::<f32>::normal([2, heads, rows, columns], HeadOrder::HeadsFirst, seed);
    let tensors = [tensor(4, 20, 7, 1), tensor(2, 27, 7, 2), tensor(2, 27, 5, 3)];
    let dout = tensor(4, 20, 5, 4);
    let dlse = Tensor::<f32>::normal([1, 1, 1, 160], HeadOrder::HeadsFirst, 5).into_data();
    let rows = |of_head: usize| (0..8 * of_head).map(move |at| [at / (4 * of_head), at / of_head % 4, at % of_head]);
    let held = |vectors: &[(Vec<f32>, Sharing)]| -> Vec<HostVector> {
        vectors.iter().map(|(values, sharing)| HostVector::from(values.clone()).shared(*sharing)).collect()
    };
    let attended = |scalars: &[f32], vectors: &[(Vec<f32>, Sharing)]| {
        let vectors = held(vectors);
        let inputs = ScoreInputs::new(0.4).scalars(scalars).vectors(&vectors);
        reference_of(&shape, &mask, tensors.each_ref(), spec.score, &inputs, rows(20))
    };
    let loss = |scalars: &[f32], vectors: &[(Vec<f32>, Sharing)]| -> f64 {
        let found = attended(scalars, vectors);
        let of_output = found.output.iter().zip(dout.data()).map(|(value, slope)| value * f64::from(*slope));
        let of_lse = found.lse.iter().zip(&dlse).map(|(value, slope)| value * f64::from(*slope));
        of_output.chain(of_lse.filter(|term| term.is_finite())).sum()
    };
    let right = attended(&scalars, &vectors);
    let output = right.output.iter().map(|value| *value as f32).collect::<Vec<f32>>();
    let output = Tensor::from_vec([2, 4, 20, 5], HeadOrder::HeadsFirst, output).unwrap();
    let (lse, inputs) = (right.lse.iter().map(|value| *value as f32).collect::<Vec<f32>>(), held(&vectors));
    let saved = Saved {
        tensors: tensors.each_ref(),
        output: &output,
        lse: &lse,
        output_gradient: &dout,
        lse_gradient: Some(&dlse),
        inputs: ScoreInputs::new(0.4).scalars(&scalars).vectors(&inputs),
    };
    let mut compared = 0;
    for (spec, of_head) in spec.gradients_with_score().iter().zip([20, 27]) {
        let parameters = spec.score_sums().len();
        let found = gradients_of_score(spec, &shape, &mask, &saved, rows(of_head));
        let line = |line: usize, row: usize| {
            let (head, parameter) = (line / parameters, line % parameters);
            found.values[(head * of_head + row) * parameters + parameter] as f32
        };
        let values = (0..8 * parameters).flat_map(|at| (0..of_head).map(move |row| line(at, row)));
        let sums = ScoreSums::of(spec, &shape, values.collect());
        for (number, gradient) in sums.gradients(spec, &shape, &saved.inputs) {
            for element in (0..gradient.len()).step_by(gradient.len().div_ceil(7)) {
                let moved = |by: f32| {
                    let (mut scalars, mut vectors) = (scalars, vectors.clone());
                    let value = if number < 2 { &mut scalars[number] } else { &mut vectors[number - 2].0[element] };
                    *value += by;
                    (f64::from(*value), loss(&scalars, &vectors))
                };
                let ((low, less), (high, more)) = (moved(-1e-3), moved(1e-3));
                let (slope, found) = ((more - less) / (high - low), gradient[element]);
                let bound = 5e-5 * (1.0 + slope.abs());
                assert!((slope - found).abs() < bound, "parameter {number}, {element}: {found}, not {slope}");
                compared += usize::from(found != 0.0);
            }
        }
    }
    assert!(compared > 25, "{compared} elements");
}
