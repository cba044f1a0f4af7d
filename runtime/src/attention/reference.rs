//! Attention in f64.

use bsr_codegen::Epilogue;
use bsr_codegen::epilogue::{Pair, Program};

use super::{Mask, Shape, Tensor};
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

/// O of some queries, each `[problem, head, query]`.
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
    let mut attended = Attended { output: vec![], sums: vec![] };
    let inputs: Vec<f64> = score.iter().flat_map(|(_, numbers)| numbers.iter().copied().map(f64::from)).collect();
    let program = score.map(|(score, _)| score.program());
    for row in rows {
        let (output, sum) = one_row(shape, mask, tensors, f64::from(scale), (program, &inputs), row);
        attended.output.extend(output);
        attended.sums.push(sum);
    }
    attended
}

fn one_row<T: Element>(
    shape: &Shape,
    mask: &Mask,
    [q, k, v]: [&Tensor<T>; 3],
    scale: f64,
    (score, inputs): (Option<&Program>, &[f64]),
    [batch, head, query]: [usize; 3],
) -> (Vec<f64>, f64) {
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
                Some(score) => score.score(&Pair { product, query, key, head, batch, scale, inputs }),
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
