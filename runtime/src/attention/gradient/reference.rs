//! Gradients in f64, and how far off right kernels may be.
//!
//! **Rounding.** P and dS are rounded to the type before they are multiplied, by at most `u = 2^-p` of their value with p
//! significant bits. The errors of the pairs of a row are independent; the bound is `4 u` of the root of the sum of their
//! squares, times what they are multiplied by, and `u` of the element itself.
//!
//! **Exponentials and sums.** An error of a score is a relative error of P, as of a forward kernel; dP and delta are f32 sums
//! of exact products. All of these errors add up.
//!
//! **Derivatives of scores** are computed in f32 from the product and from values of functions, and are off by as much as these.

use std::marker::PhantomData;

use bsr_codegen::epilogue::{Pair, Program};
use bsr_codegen::{Dtype, Epilogue, KernelSpec, Op};

use super::Saved;
use crate::Element;
use crate::attention::wide_rows::WideRows;
use crate::attention::{Mask, Shape, vector};
use crate::element::widened;
use crate::reference::{f32_sums, half_ulp, product_and_squares};

/// How many times what independent roundings lead to is right.
const SPREAD: f64 = 4.0;
/// The relative error of a score, and of an exponential.
const OF_SCORE: f64 = 1.0 / (1 << 19) as f64;
/// The error of a derivative by the product times the scale, for derivatives up to 1.
const OF_SLOPE: f64 = 1.0 / (1 << 17) as f64;
/// Below it, values of f16 are rounded to multiples of 2^-24.
const LEAST_F16: f64 = 1.0 / (1 << 14) as f64;

/// Rows of a gradient, one after the other, and how far off each element may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summed {
    /// The elements.
    pub values: Vec<f64>,
    /// How far off each may be.
    pub bounds: Vec<f64>,
}

/// dQ of some queries, each `[problem, head, query]`.
///
/// # Panics
/// For tensors or a mask that do not fit `shape`.
pub fn gradients_of_queries<T: Element>(
    shape: &Shape,
    mask: &Mask,
    saved: &Saved<'_, T>,
    score: Option<Epilogue>,
    queries: impl IntoIterator<Item = [usize; 3]>,
) -> Summed {
    let (bm, bk) = mask.block();
    let mut rows = Keys::new(saved);
    let mut summed = Summed::default();
    for [problem, head, query] in queries {
        let list = &mask.lists()[mask.pattern(problem, head, shape.heads)];
        let of_query = OfQuery::new(shape, saved, [problem, head, query]);
        let mut row = Row::<T>::new(saved.tensors[0].sizes()[3]);
        for (column, partial) in list.row(query / bm) {
            let program = score.filter(|_| partial).map(|score| score.program());
            let first = column as usize * bk;
            for key in first..(first + bk).min(shape.keys) {
                let at = [problem, shape.key_head(head), key];
                let (_, slope) = of_query.pair(shape, saved, program, (at, &mut rows));
                row.add(slope, rows.k.row(at));
            }
        }
        row.end(f64::from(saved.inputs.scale), &mut summed);
    }
    summed
}

/// dK and dV of some keys, each `[problem, head of K and V, key]`.
///
/// # Panics
/// For tensors or a mask that do not fit `shape`.
pub fn gradients_of_keys<T: Element>(
    shape: &Shape,
    mask: &Mask,
    saved: &Saved<'_, T>,
    score: Option<Epilogue>,
    keys: impl IntoIterator<Item = [usize; 3]>,
) -> [Summed; 2] {
    let by_keys = mask.transposed();
    let (bk, bm) = by_keys.block();
    let group = shape.heads / shape.key_heads;
    let [q, _, _] = saved.tensors;
    let (mut of_head, mut rows) = (OfHead::default(), Keys::new(saved));
    let mut summed = [Summed::default(), Summed::default()];
    for [problem, key_head, key] in keys {
        let mut of_key = Row::<T>::new(q.sizes()[3]);
        let mut of_value = Row::<T>::new(shape.columns);
        for head in key_head * group..(key_head + 1) * group {
            let list = &by_keys.lists()[by_keys.pattern(problem, head, shape.heads)];
            for (block, partial) in list.row(key / bk) {
                let program = score.filter(|_| partial).map(|score| score.program());
                let first = block as usize * bm;
                for query in first..(first + bm).min(shape.queries) {
                    let of_query = of_head.query(shape, saved, [problem, head, query]);
                    let place = [problem, key_head, key];
                    let ([probability, _], slope) = of_query.pair(shape, saved, program, (place, &mut rows));
                    of_key.add(slope, &of_query.q);
                    of_value.add(probability, &of_query.dout);
                }
            }
        }
        of_key.end(f64::from(saved.inputs.scale), &mut summed[0]);
        of_value.end(1.0, &mut summed[1]);
    }
    summed
}

/// The gradients of the score's parameters that a kernel of `spec` sums, for some of its rows, each `[problem, head of Q, query or
/// key]`: those of all parameters of a row, then those of the next.
///
/// # Panics
/// For tensors or a mask that do not fit `shape`.
pub fn gradients_of_score<T: Element>(
    spec: &KernelSpec,
    shape: &Shape,
    mask: &Mask,
    saved: &Saved<'_, T>,
    rows: impl IntoIterator<Item = [usize; 3]>,
) -> Summed {
    let (is_of_keys, parameters) = (spec.op == Op::AttentionDkv, spec.score_sums());
    let by_rows = if is_of_keys { mask.transposed() } else { mask.clone() };
    let ((own, other), last) = (by_rows.block(), if is_of_keys { shape.queries } else { shape.keys });
    let (mut of_head, mut of_keys) = (OfHead::default(), Keys::new(saved));
    let mut summed = Summed::default();
    for [problem, head, row] in rows {
        let list = &by_rows.lists()[by_rows.pattern(problem, head, shape.heads)];
        let pairs = list.row(row / own).filter(|(_, partial)| *partial).flat_map(|(block, _)| {
            let first = block as usize * other;
            first..(first + other).min(last)
        });
        let mut sums = vec![OfElement::default(); parameters.len()];
        let mut terms = 1;
        for passing in pairs {
            let (query, key) = if is_of_keys { (passing, row) } else { (row, passing) };
            let Some(program) = spec.score.map(|score| score.program()) else { continue };
            let of_query = of_head.query(shape, saved, [problem, head, query]);
            let key = [problem, shape.key_head(head), key];
            let [_, weight] = of_query.pair(shape, saved, Some(program), (key, &mut of_keys)).0;
            terms += 1;
            if weight.value == 0.0 && weight.error == 0.0 {
                continue;
            }
            let product = of_query.product_with(of_keys.k.row(key)).value;
            of_query.with_score(shape, saved, program, (key, product), |pair| {
                for (sum, number) in sums.iter_mut().zip(&parameters) {
                    let slope = program.slope_by_parameter(*number, pair);
                    sum.value += weight.value * slope;
                    sum.squares += (weight.value * slope).powi(2);
                    sum.error += weight.error * slope.abs() + weight.value.abs() * OF_SLOPE * (1.0 + slope.abs());
                }
            });
        }
        for OfElement { value, squares, error } in sums {
            summed.values.push(value);
            summed.bounds.push(f32_sums(T::DTYPE, terms) * squares.sqrt() + error);
        }
    }
    summed
}

/// A value, and how far off it may be before it is rounded.
#[derive(Clone, Copy)]
struct Near {
    value: f64,
    error: f64,
}

/// Rows of K and V.
struct Keys<'t, T> {
    k: WideRows<'t, T>,
    v: WideRows<'t, T>,
}

impl<'t, T: Element> Keys<'t, T> {
    fn new(saved: &Saved<'t, T>) -> Self {
        let [_, k, v] = saved.tensors.map(WideRows::new);
        Self { k, v }
    }
}

/// The queries of one head that pairs were computed of.
struct OfHead<T> {
    at: [usize; 2],
    queries: Vec<Option<OfQuery<T>>>,
}

impl<T> Default for OfHead<T> {
    fn default() -> Self {
        Self { at: [0; 2], queries: vec![] }
    }
}

impl<T: Element> OfHead<T> {
    fn query(&mut self, shape: &Shape, saved: &Saved<'_, T>, at @ [problem, head, query]: [usize; 3]) -> &OfQuery<T> {
        if self.queries.is_empty() || self.at != [problem, head] {
            self.at = [problem, head];
            self.queries = (0..shape.queries).map(|_| None).collect();
        }
        self.queries[query].get_or_insert_with(|| OfQuery::new(shape, saved, at))
    }
}

/// What a query's pairs have in common.
struct OfQuery<T> {
    at: [usize; 3],
    q: Vec<f64>,
    dout: Vec<f64>,
    lse: f64,
    delta: Near,
    of: PhantomData<T>,
}

impl<T: Element> OfQuery<T> {
    fn new(shape: &Shape, saved: &Saved<'_, T>, at @ [problem, head, query]: [usize; 3]) -> Self {
        let place = (problem * shape.heads + head) * shape.queries + query;
        let [q, output, dout] = [saved.tensors[0], saved.output, saved.output_gradient].map(|of| widened(of.row(at)));
        let mut delta = product::<T>(&output, &dout);
        delta.value -= saved.lse_gradient.map_or(0.0, |values| f64::from(values[place]));
        Self { at, q, dout, lse: f64::from(saved.lse[place]), delta, of: PhantomData }
    }

    /// The product with a row of K.
    fn product_with(&self, key: &[f64]) -> Near {
        product::<T>(&self.q, key)
    }

    /// P and P * (dP - delta) of a pair of the query and a key, and dS, the latter divided by the scale.
    fn pair(
        &self,
        shape: &Shape,
        saved: &Saved<'_, T>,
        score: Option<&Program>,
        (key, rows): ([usize; 3], &mut Keys<'_, T>),
    ) -> ([Near; 2], Near) {
        let (scale, product) = (f64::from(saved.inputs.scale), self.product_with(rows.k.row(key)));
        let (score, slope) = match score {
            Some(score) => {
                self.with_score(shape, saved, score, (key, product.value), |pair| score.score_and_slope(pair))
            }
            None => (product.value * scale, scale),
        };
        if self.lse == f64::NEG_INFINITY || score == f64::NEG_INFINITY {
            let nothing = Near { value: 0.0, error: 0.0 };
            return ([nothing; 2], nothing);
        }
        let value = (score - self.lse).exp();
        let error = value * (OF_SCORE * (1.0 + score.abs() + self.lse.abs()) + slope.abs() * product.error);
        let dp = self::product::<T>(&self.dout, rows.v.row(key));
        let by = dp.value - self.delta.value;
        let of_by = error * by.abs() + value * (dp.error + self.delta.error);
        let slope = slope / scale;
        let of_slope = if slope == 1.0 { 0.0 } else { OF_SLOPE * (1.0 + slope.abs()) };
        let error_of_both = of_by * slope.abs() + value * by.abs() * of_slope;
        let of_score = Near { value: value * by, error: of_by };
        ([Near { value, error }, of_score], Near { value: value * by * slope, error: error_of_both })
    }

    /// What `compute` makes of the query, a key and their product, as a score finds them.
    fn with_score<R>(
        &self,
        shape: &Shape,
        saved: &Saved<'_, T>,
        score: &Program,
        (key, product): ([usize; 3], f64),
        compute: impl FnOnce(&Pair<'_>) -> R,
    ) -> R {
        let [batch, head, query] = self.at;
        let (scale, key) = (f64::from(saved.inputs.scale), key[2]);
        let mut inputs = vec![0.0; score.inputs().len()];
        vector::values(score, &saved.inputs, shape, [batch, head, query, key], &mut inputs);
        compute(&Pair { product, query, key, head, batch, scale, inputs: &inputs })
    }
}

/// The product of two rows, which kernels sum in f32.
fn product<T: Element>(a: &[f64], b: &[f64]) -> Near {
    let [value, squares] = product_and_squares(a, b);
    Near { value, error: f32_sums(T::DTYPE, a.len()) * squares.sqrt() }
}

/// A row of a gradient, as it grows.
struct Row<T> {
    elements: Vec<OfElement>,
    terms: usize,
    of: PhantomData<T>,
}

#[derive(Clone, Copy, Default)]
struct OfElement {
    value: f64,
    /// Of what is rounded times what it is multiplied by.
    squares: f64,
    error: f64,
}

impl<T: Element> Row<T> {
    fn new(columns: usize) -> Self {
        Self { elements: vec![OfElement::default(); columns], terms: 0, of: PhantomData }
    }

    fn least() -> f64 {
        if T::DTYPE == Dtype::F16 { LEAST_F16 } else { 0.0 }
    }

    fn add(&mut self, factor: Near, row: &[f64]) {
        let weight = if factor.value == 0.0 { 0.0 } else { factor.value.abs().max(Self::least()) };
        self.terms += 1;
        for (element, &value) in self.elements.iter_mut().zip(row) {
            element.value += factor.value * value;
            element.squares += (weight * value).powi(2);
            element.error += factor.error * value.abs();
        }
    }

    fn end(self, scale: f64, into: &mut Summed) {
        let (rounding, sums) = (half_ulp(T::DTYPE), f32_sums(T::DTYPE, self.terms.max(1)));
        for OfElement { value, squares, error } in self.elements {
            let value = value * scale;
            into.values.push(value);
            into.bounds.push(
                scale * ((SPREAD * rounding + sums) * squares.sqrt() + error)
                    + rounding * value.abs().max(Self::least()),
            );
        }
    }
}
