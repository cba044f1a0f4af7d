//! Attention in f64.

use bsr_codegen::Epilogue;
use bsr_codegen::epilogue::{Pair, Program};

use super::{Mask, ScoreInputs, Shape, Tensor, vector};
use crate::Element;

/// What an attention computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    /// Rows of O, one after the other.
    pub output: Vec<f64>,
    /// The natural logarithm of each row's sum of exponentials; minus infinity for a query without keys.
    pub sums: Vec<f64>,
}

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
    let mut attended = Attended { output: vec![], sums: vec![] };
    let program = score.map(|score| score.program());
    for row in rows {
        let (output, sum) = one_row(shape, mask, tensors, (program, inputs), row);
        attended.output.extend(output);
        attended.sums.push(sum);
    }
    attended
}

fn one_row<T: Element>(
    shape: &Shape,
    mask: &Mask,
    [q, k, v]: [&Tensor<T>; 3],
    (score, inputs): (Option<&Program>, &ScoreInputs<'_>),
    [batch, head, query]: [usize; 3],
) -> (Vec<f64>, f64) {
    let scale = f64::from(inputs.scale);
    let mut values = vec![0.0; score.map_or(0, |score| score.inputs().len())];
    let key_head = shape.key_head(head);
    let wide = |row: &[T]| row.iter().map(|value| value.to_f64()).collect::<Vec<f64>>();
    let q = wide(q.row([batch, head, query]));
    let (bm, bk) = mask.block();
    let list = &mask.lists()[mask.pattern(batch, head, shape.heads)];
    let mut scores = vec![];
    for (column, partial) in list.row(query / bm) {
        let first = column as usize * bk;
        for key in first..(first + bk).min(shape.keys) {
            let product: f64 = q.iter().zip(wide(k.row([batch, key_head, key]))).map(|(a, b)| a * b).sum();
            let value = match score.filter(|_| partial) {
                Some(score) => {
                    vector::values(score, inputs, shape, [batch, head, query, key], &mut values);
                    score.score(&Pair { product, query, key, head, batch, scale, inputs: &values })
                }
                None => product * scale,
            };
            scores.push((key, value));
        }
    }
    let greatest = scores.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
    let mut output = vec![0.0; shape.columns];
    if greatest == f64::NEG_INFINITY {
        return (output, greatest);
    }
    let mut sum = 0.0;
    for (key, score) in scores {
        let weight = (score - greatest).exp();
        sum += weight;
        for (to, value) in output.iter_mut().zip(v.row([batch, key_head, key])) {
            *to += weight * value.to_f64();
        }
    }
    output.iter_mut().for_each(|value| *value /= sum);
    (output, greatest + sum.ln())
}
