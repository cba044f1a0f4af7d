//! Whether an attention is right: every element of O against what rounding explains of it, and every logarithm of a sum.

use bsr_codegen::Dtype;

use super::{Attended, Tensor};
use crate::Element;

/// The reference of some rows of O.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// `[problem, head, query]` of each row.
    pub rows: Vec<[usize; 3]>,
    /// What they must be.
    pub values: Attended,
    /// Queries of a problem.
    pub queries: usize,
    /// Heads of Q and O.
    pub heads: usize,
}

/// How a result differs from the reference by more than rounding explains.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("wrong result: {0}")]
pub struct WrongAttention(String);

/// The greatest relative error of a right O in the Frobenius norm: probabilities and O are rounded to the type.
pub fn tolerance(dtype: Dtype) -> f64 {
    if dtype == Dtype::BF16 { 5e-3 } else { 1e-3 }
}

impl Wanted {
    /// Compares each element of O and each logarithm of a row's sum; without `sums`, O alone. Returns the relative error of O
    /// in the Frobenius norm.
    ///
    /// # Errors
    /// The first element or sum that is no number or differs by more than rounding explains ([`Attended`]), and a relative
    /// error beyond [`tolerance`].
    pub fn verify<T: Element>(&self, output: &Tensor<T>, sums: &[f32]) -> Result<f64, WrongAttention> {
        let columns = output.sizes()[3];
        let Attended { output: right, output_bounds, lse: right_lse, lse_bounds } = &self.values;
        let (mut wrong, mut whole) = (0.0, 0.0);
        for (number, place) in self.rows.iter().enumerate() {
            let sum = sums.get((place[0] * self.heads + place[1]) * self.queries + place[2]);
            if let Some(found) = sum.map(|sum| f64::from(*sum)) {
                let (expected, bound) = (right_lse[number], lse_bounds[number]);
                if found != expected && !is_near(found, expected, bound) {
                    return Err(WrongAttention(format!(
                        "the logarithm of the sum of {place:?} (problem, head, query) is {found}, not {expected:.6}; rounding \
                         explains {bound:.1e}"
                    )));
                }
            }
            for (column, found) in output.row(*place).iter().enumerate() {
                let (found, at) = (found.to_f64(), number * columns + column);
                if !is_near(found, right[at], output_bounds[at]) {
                    return Err(WrongAttention(format!(
                        "O is {found} in column {column} of {place:?} (problem, head, query), not {:.6}; rounding explains {:.1e}",
                        right[at], output_bounds[at]
                    )));
                }
                wrong += (found - right[at]).powi(2);
                whole += right[at].powi(2);
            }
        }
        let (error, most) = (if whole > 0.0 { (wrong / whole).sqrt() } else { wrong.sqrt() }, tolerance(T::DTYPE));
        match error <= most {
            true => Ok(error),
            false => {
                Err(WrongAttention(format!("a relative error of {error:.1e}; a right one has at most {most:.1e}")))
            }
        }
    }
}

/// False where either is no number, or infinite.
fn is_near(found: f64, expected: f64, bound: f64) -> bool {
    (found - expected).abs() <= bound
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::KernelSpec;
    use half::{bf16, f16};

    use super::super::{HeadOrder, Mask, Problem, Shape};
    use super::*;

    const SHAPE: Shape = Shape { batch: 1, heads: 1, key_heads: 1, queries: 128, keys: 1024, columns: 32 };

    fn spec() -> KernelSpec {
        "op = attention, bm = 64, bn = 32, bk = 64, d = 16".parse().unwrap()
    }

    fn problem() -> Problem {
        Problem::new(&spec(), SHAPE, Mask::full((SHAPE.queries, SHAPE.keys), (64, 64)).unwrap(), "all")
    }

    fn wanted<T: Element>(tensors: &[Tensor<T>; 3]) -> Wanted {
        problem().wanted(&spec(), tensors, usize::MAX)
    }

    /// O and sums, rounded.
    fn rounded<T: Element>(values: &Attended) -> (Tensor<T>, Vec<f32>) {
        let output = values.output.iter().map(|value| T::from_f64(*value)).collect();
        let sizes = problem().output_sizes();
        let sums = values.lse.iter().map(|sum| *sum as f32).collect();
        (Tensor::from_vec(sizes, HeadOrder::HeadsFirst, output).unwrap(), sums)
    }

    /// One row of O whose key 700 has the V of its neighbour: hardly a difference to all rows together.
    fn one_wrong_key<T: Element>() {
        let [q, k, v] = problem().tensors::<T>();
        let mut other = v.data().to_vec();
        other.copy_within(701 * 32..702 * 32, 700 * 32);
        let other = Tensor::from_vec(v.sizes(), HeadOrder::HeadsFirst, other).unwrap();
        let (right, wrong) = (wanted(&[q.clone(), k.clone(), v]), wanted(&[q, k, other]));
        let (output, sums) = rounded::<T>(&right.values);
        assert!(right.verify(&output, &sums).unwrap() < tolerance(T::DTYPE));
        let mut values = right.values.clone();
        values.output[100 * 32..101 * 32].copy_from_slice(&wrong.values.output[100 * 32..101 * 32]);
        let squares = |of: &dyn Fn(usize) -> f64| (0..values.output.len()).map(|at| of(at).powi(2)).sum::<f64>();
        let differences = squares(&|at| values.output[at] - right.values.output[at]);
        assert!((differences / squares(&|at| values.output[at])).sqrt() < tolerance(Dtype::BF16));
        let error = right.verify(&rounded::<T>(&values).0, &sums).unwrap_err().to_string();
        assert!(error.contains("of [0, 0, 100] (problem, head, query), not "), "{error}");
    }

    #[test]
    fn one_wrong_key_of_one_query_is_found() {
        one_wrong_key::<f16>();
        one_wrong_key::<bf16>();
    }

    #[test]
    fn a_logarithm_is_as_exact_as_f32() {
        let right = wanted(&problem().tensors::<bf16>());
        let (output, mut sums) = rounded::<bf16>(&right.values);
        sums[100] += 2e-4;
        let error = right.verify(&output, &sums).unwrap_err().to_string();
        assert!(error.contains("the logarithm of the sum of [0, 0, 100]"), "{error}");
        assert!(right.verify(&output, &[]).is_ok());
        sums[100] = f32::NAN;
        assert!(right.verify(&output, &sums).is_err());
    }
}
