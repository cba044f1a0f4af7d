//! Attention in f64.

use bsr_codegen::epilogue::{Pair, Program};
use bsr_codegen::{Dtype, Epilogue};

use super::wide_rows::WideRows;
use super::{Factors, Mask, ScoreInputs, Shape, Tensor, vector};
use crate::Element;
use crate::element::widened;
use crate::reference::{f32_sums, half_ulp, product_and_squares, short_sums};

/// What an attention computes, and how far off a right kernel may be.
///
/// **O.** A probability p and an element of O are rounded to the type, by at most `u = 2^-p` of their value with p significant
/// bits. The errors of the keys of a row are independent, so that those of an element add up to about `0.4 u` of the root of the
/// sum of `(p v)^2`; the bound is `4 u` of it, and `u` of the element.
///
/// **8 bits.** Probabilities are then e4m3, of 4 significant bits down to 2^-10 of the greatest, and O has at least those of bf16.
/// Sums of the tensor core have fewer bits than f32 has.
///
/// **Exponentials.** An error of a score is a relative error of its exponential: `2^-19` of the score, and of 1 (a function
/// of a score is exact to 2^-20, an exponential to 2^-22), and what f32 sums of so many products lead to. O may be off by the
/// errors of all keys together, each by its share in O, and so may be the logarithm of the sum, beside `8e-6` for the logarithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// Rows of O, one after the other.
    pub output: Vec<f64>,
    /// How far off each element of O may be.
    pub output_bounds: Vec<f64>,
    /// LSE, the natural logarithm of each row's sum of exponentials; its sink, or minus infinity, for a query without keys.
    pub lse: Vec<f64>,
    /// How far off each logarithm may be.
    pub lse_bounds: Vec<f64>,
}

/// How many times what independent roundings lead to is right.
const SPREAD: f64 = 4.0;
/// The relative error of a score, and of an exponential.
const OF_SCORE: f64 = 1.0 / (1 << 19) as f64;
/// The error of a logarithm.
const OF_LOGARITHM: f64 = 8e-6;
/// Below it, values of f16 are rounded to multiples of 2^-24.
const LEAST_F16: f64 = 1.0 / (1 << 14) as f64;
/// Below it, probabilities in e4m3 of a row whose greatest is 1 are rounded to multiples of 2^-13: the kernel multiplies them by at
/// least 2^4, and below 2^-6 the type has multiples of 2^-9.
const LEAST_E4M3: f64 = 1.0 / (1 << 10) as f64;

/// O of every query, `[batch, heads, queries, columns]`.
///
/// # Panics
/// For tensors or a mask that do not fit `shape`.
pub fn reference<T: Element>(
    shape: &Shape,
    mask: &Mask,
    [q, k, v]: [&Tensor<T>; 3],
    scale: f32,
    score: Option<(Epilogue, &[f32])>,
) -> Attended {
    let all = (0..shape.batch).flat_map(|problem| {
        (0..shape.heads).flat_map(move |head| (0..shape.queries).map(move |query| [problem, head, query]))
    });
    reference_rows(shape, mask, [q, k, v], scale, score, all)
}

/// O of some queries, each `[problem, head, query]`, where the score reads numbers alone.
///
/// # Panics
/// For tensors or a mask that do not fit `shape`.
pub fn reference_rows<T: Element>(
    shape: &Shape,
    mask: &Mask,
    tensors: [&Tensor<T>; 3],
    scale: f32,
    score: Option<(Epilogue, &[f32])>,
    rows: impl IntoIterator<Item = [usize; 3]>,
) -> Attended {
    let (score, scalars) = score.map_or((None, &[][..]), |(score, scalars)| (Some(score), scalars));
    reference_of(shape, mask, tensors, score, &ScoreInputs::new(scale).scalars(scalars), rows)
}

/// The same with all that a score may read.
///
/// # Panics
/// For tensors, a mask or vectors that do not fit `shape`.
pub fn reference_of<T: Element>(
    shape: &Shape,
    mask: &Mask,
    tensors: [&Tensor<T>; 3],
    score: Option<Epilogue>,
    inputs: &ScoreInputs<'_>,
    rows: impl IntoIterator<Item = [usize; 3]>,
) -> Attended {
    let mut attended = Attended { output: vec![], output_bounds: vec![], lse: vec![], lse_bounds: vec![] };
    let program = score.map(|score| score.program());
    let [q, k, v] = tensors;
    let mut keys = [k, v].map(WideRows::new);
    for row in rows {
        one_row(shape, mask, (q, &mut keys), (program, inputs), row, &mut attended);
    }
    attended
}

/// A key that is attended to.
struct Attends {
    key: usize,
    score: f64,
    /// By what V of the key is multiplied.
    of_value: f64,
    /// The error of the score.
    error: f64,
}

fn one_row<T: Element>(
    shape: &Shape,
    mask: &Mask,
    (q, [k, v]): (&Tensor<T>, &mut [WideRows<'_, T>; 2]),
    (score, inputs): (Option<&Program>, &ScoreInputs<'_>),
    [batch, head, query]: [usize; 3],
    into: &mut Attended,
) {
    let scale = f64::from(inputs.scale);
    let mut values = vec![0.0; score.map_or(0, |score| score.inputs().len())];
    let key_head = shape.key_head(head);
    let q = widened(q.row([batch, head, query]));
    let factors = |key: usize| {
        let of_pair =
            |factors: &Factors| factors.of_pair(shape, mask.block(), [batch, head, query], key).map(f64::from);
        inputs.factors.map_or([1.0; 2], of_pair)
    };
    let error_of_products = scale * (f32_sums(T::DTYPE, q.len()) + short_sums(T::DTYPE, q.len(), None));
    let (bm, bk) = mask.block();
    let list = &mask.lists()[mask.pattern(batch, head, shape.heads)];
    let mut attends = vec![];
    let keys = inputs.lengths.map_or(shape.keys, |lengths| lengths[batch]);
    for (column, partial) in list.row(query / bm) {
        let first = column as usize * bk;
        for key in first..(first + bk).min(keys) {
            let [product, squares] = product_and_squares(&q, k.row([batch, key_head, key]));
            // Tensor cores that cut a sum in FP8 do it towards zero: the parts do not cancel.
            let summed = squares.sqrt() + product.abs();
            let [of_product, of_value] = factors(key);
            let product = product * of_product;
            let score = match score.filter(|_| partial) {
                Some(score) => {
                    vector::values(score, inputs, shape, [batch, head, query, key], &mut values);
                    score.score(&Pair { product, query, key, head, batch, scale, inputs: &values })
                }
                None => product * scale,
            };
            let error = OF_SCORE * (1.0 + score.abs()) + error_of_products * of_product * summed;
            attends.push(Attends { key, score, of_value, error });
        }
    }
    let sink = inputs.sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[head]));
    let greatest = attends.iter().map(|key| key.score).fold(sink, f64::max);
    if greatest == f64::NEG_INFINITY {
        into.output.resize(into.output.len() + shape.columns, 0.0);
        into.output_bounds.resize(into.output.len(), 0.0);
        into.lse.push(greatest);
        into.lse_bounds.push(0.0);
        return;
    }
    attends.retain(|key| key.score > f64::NEG_INFINITY);
    let of_sink = (sink - greatest).exp();
    let sum = attends.iter().fold(of_sink, |sum, key| sum + (key.score - greatest).exp());
    let rounding = half_ulp(T::DTYPE);
    // Of a probability; of O, and what rounds that.
    let (least, [least_output, of_output]) = match T::DTYPE {
        // The reference of its exponentials is that of probabilities times the factors of V.
        Dtype::E4M3 => (LEAST_E4M3 / sum * weightiest(&attends, greatest), [LEAST_F16, half_ulp(Dtype::BF16)]),
        Dtype::F16 => (LEAST_F16, [LEAST_F16, rounding]),
        _ => (0.0, [0.0, rounding]),
    };
    let of_sums = short_sums(T::DTYPE, attends.len(), None);
    let mut row = vec![OfElement::default(); shape.columns];
    let mut error = of_sink / sum * OF_SCORE * (1.0 + if of_sink > 0.0 { sink.abs() } else { 0.0 });
    for key in attends {
        let probability = (key.score - greatest).exp() / sum;
        let (weight, of_key) = (probability.max(least / key.of_value).powi(2), probability * key.error);
        error += of_key;
        for (element, value) in row.iter_mut().zip(v.row([batch, key_head, key.key])) {
            let value = value * key.of_value;
            element.value += probability * value;
            element.squares += weight * value * value;
            element.error += of_key * value.abs();
        }
    }
    for OfElement { value, squares, error: of_keys } in row {
        into.output.push(value);
        let summed = of_sums * (2.0 * squares.sqrt() + value.abs());
        let rounded = rounding * SPREAD * squares.sqrt() + of_output * value.abs().max(least_output) + summed;
        into.output_bounds.push(rounded + of_keys + error * value.abs());
    }
    into.lse.push(greatest + sum.ln());
    into.lse_bounds.push(OF_LOGARITHM + error);
}

/// The greatest exponential times the factor of V of its key.
fn weightiest(attends: &[Attends], greatest: f64) -> f64 {
    attends.iter().map(|key| (key.score - greatest).exp() * key.of_value).fold(0.0, f64::max)
}

/// What is summed of an element of O.
#[derive(Clone, Copy, Default)]
struct OfElement {
    value: f64,
    /// Of the probabilities times V.
    squares: f64,
    /// What errors of scores lead to.
    error: f64,
}
