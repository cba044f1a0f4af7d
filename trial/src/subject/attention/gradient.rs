//! Gradients of attentions: what they are computed from, and whether they are right.

use std::f64::consts::LOG2_E;

use bsr_codegen::{Dtype, Epilogue, KernelSpec, Op};
use bsr_runtime::Element;
use bsr_runtime::attention::{
    HostVector, Mask, RowTerms, Saved, ScoreInputs, ScoreSums, Shape, Summed, Tensor, gradients_of_keys,
    gradients_of_queries, gradients_of_score, reference_of,
};

use bsr_runtime::reference::{Bounds, Fused};

use super::Problem;
use crate::Failure;
use crate::verify::{Expected, Rows};

/// Seeds of dO and of the gradient of LSE, behind those of Q, K and V.
const MORE_SEEDS: [u64; 2] = [3, 4];

/// An attention that was computed, and the gradients of its results, drawn from N(0, 1).
#[derive(Clone, Debug)]
pub struct Backward<T> {
    /// The sizes.
    pub shape: Shape,
    /// Which blocks are computed.
    pub mask: Mask,
    /// What products are multiplied by.
    pub scale: f32,
    /// The score of partial blocks.
    pub score: Option<Epilogue>,
    /// Its numbers.
    pub scalars: Vec<f32>,
    /// Its vectors.
    pub vectors: Vec<HostVector>,
    /// Q, K and V.
    pub tensors: [Tensor<T>; 3],
    /// O.
    pub output: Tensor<T>,
    /// LSE of each query.
    pub lse: Vec<f32>,
    /// dO.
    pub output_gradient: Tensor<T>,
    /// The gradient of LSE, where something depends on it.
    pub lse_gradient: Option<Vec<f32>>,
}

impl<T: Element> Backward<T> {
    /// A problem whose O and LSE are computed in f64.
    ///
    /// # Errors
    /// Sizes that no tensor has.
    pub fn new(spec: &KernelSpec, problem: &Problem) -> Result<Self, Failure> {
        let score = spec.score;
        let tensors = problem.tensors::<T>();
        let Shape { heads, queries, .. } = problem.shape;
        let places = (0..problem.shape.rows()).map(|at| [at / (heads * queries), at / queries % heads, at % queries]);
        let attended =
            reference_of(&problem.shape, &problem.mask, tensors.each_ref(), score, &problem.inputs(), places);
        let mut output = Tensor::filled(problem.output_sizes(), problem.order, T::ZERO);
        let rows = attended.output.chunks(problem.shape.columns.max(1));
        for (at, row) in rows.enumerate() {
            let place = [at / (heads * queries), at / queries % heads, at % queries];
            let to = output.row_mut(place);
            to.iter_mut().zip(row).for_each(|(to, value)| *to = T::from_f64(*value));
        }
        let lse = attended.lse.iter().map(|value| *value as f32).collect();
        Ok(Self::of(spec, problem, tensors, output, lse))
    }

    /// A problem whose O and LSE were computed by a kernel.
    pub fn of(spec: &KernelSpec, problem: &Problem, tensors: [Tensor<T>; 3], output: Tensor<T>, lse: Vec<f32>) -> Self {
        let output_gradient = Tensor::normal(output.sizes(), output.order(), problem.seed.wrapping_add(MORE_SEEDS[0]));
        let (shape, mask, scale) = (problem.shape, problem.mask.clone(), problem.scale);
        let (score, scalars, vectors) = (spec.score, problem.scalars.clone(), problem.vectors.clone());
        Self { shape, mask, scale, score, scalars, vectors, tensors, output, lse, output_gradient, lse_gradient: None }
    }

    /// The same with a gradient of LSE, drawn from N(0, 1).
    #[must_use]
    pub fn with_lse_gradient(self, seed: u64) -> Self {
        let drawn =
            Tensor::<f32>::normal([1, 1, 1, self.lse.len()], self.output.order(), seed.wrapping_add(MORE_SEEDS[1]));
        Self { lse_gradient: Some(drawn.into_data()), ..self }
    }

    /// What the gradients are computed from.
    pub fn saved(&self) -> Saved<'_, T> {
        Saved {
            tensors: self.tensors.each_ref(),
            output: &self.output,
            lse: &self.lse,
            output_gradient: &self.output_gradient,
            lse_gradient: self.lse_gradient.as_deref(),
            inputs: ScoreInputs::new(self.scale).scalars(&self.scalars).vectors(&self.vectors),
        }
    }

    /// Queries, or keys, of which at most `most` are compared, and their places.
    fn places(&self, op: Op, most: usize) -> (Rows, Vec<[usize; 3]>) {
        let Shape { batch, heads, key_heads, queries, keys, .. } = self.shape;
        let (heads, rows) = if op == Op::AttentionDq { (heads, queries) } else { (key_heads, keys) };
        let chosen = Rows::spread(batch * heads * rows, most);
        let places = chosen.list.iter().map(|at| [at / (heads * rows), at / rows % heads, at % rows]).collect();
        (chosen, places)
    }

    /// What at most `most` rows of dQ must be, or of dK and of dV.
    fn summed(&self, op: Op, places: &[[usize; 3]]) -> Vec<Summed> {
        let (saved, places) = (self.saved(), places.iter().copied());
        match op {
            Op::AttentionDq => vec![gradients_of_queries(&self.shape, &self.mask, &saved, self.score, places)],
            _ => gradients_of_keys(&self.shape, &self.mask, &saved, self.score, places).into(),
        }
    }

    /// The same, as results of kernels are compared.
    pub fn expected(&self, op: Op, most: usize) -> Vec<Expected> {
        let (rows, places) = self.places(op, most);
        let (sizes, of_row) = match op {
            Op::AttentionDq => ([self.shape.heads, self.shape.queries], "query"),
            _ => ([self.shape.key_heads, self.shape.keys], "key"),
        };
        let of = |Summed { values, bounds }| {
            let bounds = Some(Bounds::new(0.0, bounds, 1));
            let want = Fused { c: values, tolerance: tolerance(T::DTYPE), bounds, rows: None, row_bounds: None };
            Expected::of_heads(rows.clone(), want, sizes, of_row)
        };
        self.summed(op, &places).into_iter().map(of).collect()
    }

    /// What is wrong with the row terms of the queries that have stored blocks, in words.
    pub fn fault_of_terms(&self, terms: &RowTerms) -> Option<String> {
        let Shape { heads, queries, columns, .. } = self.shape;
        let bm = self.mask.block().0;
        let stores = |head: usize, query: usize| {
            let list = &self.mask.lists()[self.mask.pattern(head / heads, head % heads, heads)];
            list.row(query / bm).next().is_some()
        };
        let has_blocks = |at: usize| stores(at / queries, at % queries);
        let mut beyond = terms.beyond().filter(|(head, _)| stores(*head, queries - 1));
        if let Some((head, of)) = beyond.find(|(_, of)| *of != [f32::NEG_INFINITY, 0.0]) {
            return Some(format!(
                "wrong terms beyond the last query\n  of head {head} they are {of:?}, not [-inf, 0.0]"
            ));
        }
        let right = self.saved().delta(&self.shape);
        (0..right.len()).filter(|at| has_blocks(*at)).find_map(|at| {
            let [exponent, delta] = terms.of_query(at).map(f64::from);
            let of_lse = -f64::from(self.lse[at]) * LOG2_E;
            // A query of which the mask leaves no key has no exponentials.
            let of_lse = if of_lse == f64::INFINITY { f64::NEG_INFINITY } else { of_lse };
            // Both may be minus infinity, whose difference is not a number.
            let is_near = exponent == of_lse || (exponent - of_lse).abs() <= 1e-6 * of_lse.abs();
            if !is_near {
                return Some(format!("wrong term of the exponent\n  row {at} is {exponent}, not {of_lse}"));
            }
            // An f32 sum of products of numbers that are hardly beyond 5.
            let bound = 1e-5 * (columns as f64 + right[at].abs());
            let is_near = (delta - right[at]).abs() <= bound;
            (!is_near).then(|| format!("wrong delta\n  row {at} is {delta}, not {}", right[at]))
        })
    }

    /// What is wrong with the gradients of the score's parameters that a kernel of `spec` has left, in words: of at most `most` rows,
    /// spread over all of them.
    pub fn fault_of_sums(&self, spec: &KernelSpec, sums: &ScoreSums, most: usize) -> Option<String> {
        let parameters = sums.parameters().len();
        if parameters == 0 {
            return None;
        }
        let Shape { batch, heads, queries, keys, .. } = self.shape;
        let rows = if spec.op == Op::AttentionDkv { keys } else { queries };
        let chosen = Rows::spread(batch * heads * rows, most).list;
        let places = chosen.iter().map(|at| [at / (heads * rows), at / rows % heads, at % rows]);
        let right = gradients_of_score(spec, &self.shape, &self.mask, &self.saved(), places);
        let right = right.values.chunks(parameters).zip(right.bounds.chunks(parameters));
        chosen.iter().zip(right).find_map(|(at, (values, bounds))| {
            let each = sums.of_row(*at).map(f64::from).zip(values.iter().zip(bounds)).zip(sums.parameters());
            each.into_iter().find_map(|((found, (want, bound)), parameter)| {
                let is_near = (found - want).abs() <= *bound;
                (!is_near).then(|| {
                    format!(
                        "wrong sum of the gradient of parameter {parameter} of the score\n  row {at} is {found:e}, not {want:e}; \
                         rounding explains {bound:.1e}"
                    )
                })
            })
        })
    }

    /// Compares at most `most` rows of each of dQ, dK and dV, spread over all of them, and returns the greatest error as a
    /// part of what is right.
    ///
    /// # Errors
    /// The first element that is farther off than rounding explains, in words.
    pub fn verify(&self, [dq, dk, dv]: [&Tensor<T>; 3], most: usize) -> Result<f64, String> {
        let mut worst = 0.0_f64;
        for (op, found) in [(Op::AttentionDq, &[("dQ", dq)][..]), (Op::AttentionDkv, &[("dK", dk), ("dV", dv)])] {
            let places = self.places(op, most).1;
            for ((name, found), wanted) in found.iter().zip(self.summed(op, &places)) {
                worst = worst.max(compare(name, found, &wanted, &places)?);
            }
        }
        Ok(worst)
    }
}

/// The greatest relative error of a right gradient in the Frobenius norm: P, dS and the gradient are rounded to the type.
fn tolerance(dtype: Dtype) -> f64 {
    if dtype == Dtype::BF16 { 1e-2 } else { 2e-3 }
}

fn compare<T: Element>(name: &str, found: &Tensor<T>, wanted: &Summed, places: &[[usize; 3]]) -> Result<f64, String> {
    let mut worst = 0.0_f64;
    let columns = found.sizes()[3];
    for (number, place) in places.iter().enumerate() {
        let of_row = number * columns..(number + 1) * columns;
        let right = wanted.values[of_row.clone()].iter().zip(&wanted.bounds[of_row]);
        for (column, (value, (want, bound))) in found.row(*place).iter().zip(right).enumerate() {
            let (value, off) = (value.to_f64(), (value.to_f64() - want).abs());
            // Not a number is never near.
            if off.is_nan() || off > *bound {
                let [problem, head, row] = place;
                return Err(format!(
                    "{name} is {value:.6e} where {want:.6e} is right, {off:.1e} off; rounding explains {bound:.1e}\n  at \
                     problem {problem}, head {head}, row {row}, column {column}"
                ));
            }
            worst = worst.max(if *bound > 0.0 { off / bound } else { 0.0 });
        }
    }
    Ok(worst)
}
