//! Whether an attention is right: every element of O against what rounding explains of it, and every LSE.

use bsr_codegen::Dtype;
use bsr_runtime::attention::Tensor;
use bsr_runtime::{Dense, Element, Layout};

use crate::Failure;
use crate::verify::{Expected, Verdict};

/// The greatest relative error of a right O in the Frobenius norm, of Q, K and V of a type: probabilities are rounded to it, and O
/// to it or to a wider one.
pub fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::E4M3 => 6e-2,
        Dtype::BF16 => 5e-3,
        _ => 1e-3,
    }
}

/// Compares O, and LSE where it is given.
///
/// # Errors
/// When O is not of the expected rows.
pub fn verdict<T: Element>(output: &Tensor<T>, lse: Option<&[f32]>, expected: &Expected) -> Result<Verdict, Failure> {
    let [batch, heads, queries, columns] = output.sizes();
    let mut values = Vec::with_capacity(output.data().len());
    for at in 0..batch * heads * queries {
        values.extend_from_slice(output.row([at / (heads * queries), at / queries % heads, at % queries]));
    }
    let rows = batch * heads * queries;
    let matrix = Dense::from_vec(rows, columns, Layout::RowMajor, columns, values).map_err(Failure::wrong)?;
    // Who wrote which byte is known of O alone, and where its heads come first.
    let verdict = Verdict::new(&matrix, expected)?.without_bytes();
    match lse {
        Some(lse) => verdict.with_second(Some(lse), expected),
        None => Ok(verdict),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::KernelSpec;
    use bsr_runtime::attention::{HeadOrder, Mask, Shape};
    use half::{bf16, f16};

    use super::super::Problem;
    use super::*;

    const SHAPE: Shape = Shape { batch: 1, heads: 1, key_heads: 1, queries: 128, keys: 1024, columns: 32 };

    fn spec() -> KernelSpec {
        "op = attention, bm = 64, bn = 32, bk = 64, d = 16".parse().unwrap()
    }

    fn problem() -> Problem {
        Problem::new(&spec(), SHAPE, Mask::full((SHAPE.queries, SHAPE.keys), (64, 64)).unwrap(), "all").unwrap()
    }

    fn expected<T: Element>(tensors: &[Tensor<T>; 3]) -> Expected {
        problem().expected(&spec(), tensors, usize::MAX)
    }

    /// O and LSE, rounded.
    fn rounded<T: Element>(values: &Expected) -> (Tensor<T>, Vec<f32>) {
        let output = values.want.c.iter().map(|value| T::from_f64(*value)).collect();
        let lse = values.want.rows.iter().flat_map(|(lse, _)| lse).map(|lse| *lse as f32).collect();
        (Tensor::from_vec(problem().output_sizes(), HeadOrder::HeadsFirst, output).unwrap(), lse)
    }

    fn verify<T: Element>(output: &Tensor<T>, lse: &[f32], expected: &Expected) -> Result<(), Failure> {
        verdict(output, Some(lse), expected)?.verify("k", expected.tolerance(None))
    }

    /// One row of O whose key 700 has the V of its neighbour: hardly a difference to all rows together.
    fn one_wrong_key<T: Element>() {
        let [q, k, v] = problem().tensors::<T>();
        let mut other = v.data().to_vec();
        other.copy_within(701 * 32..702 * 32, 700 * 32);
        let other = Tensor::from_vec(v.sizes(), HeadOrder::HeadsFirst, other).unwrap();
        let (right, wrong) = (expected(&[q.clone(), k.clone(), v]), expected(&[q, k, other]));
        let (output, lse) = rounded::<T>(&right);
        verify(&output, &lse, &right).unwrap();
        let mut values = right.clone();
        values.want.c[100 * 32..101 * 32].copy_from_slice(&wrong.want.c[100 * 32..101 * 32]);
        let off = verdict(&rounded::<T>(&values).0, Some(&lse), &right).unwrap();
        assert!(off.comparison.passes(tolerance(Dtype::BF16)));
        let error = off.verify("k", right.tolerance(None)).unwrap_err().to_string();
        assert!(error.contains("of rows 100 to 100") && error.contains("(problem 0, head 0, query 100)"), "{error}");
    }

    #[test]
    fn one_wrong_key_of_one_query_is_found() {
        one_wrong_key::<f16>();
        one_wrong_key::<bf16>();
    }

    #[test]
    fn a_logarithm_is_as_exact_as_f32() {
        let right = expected(&problem().tensors::<bf16>());
        let (output, mut lse) = rounded::<bf16>(&right);
        lse[100] += 2e-4;
        let error = verify(&output, &lse, &right).unwrap_err().to_string();
        assert!(error.contains("wrong LSE") && error.contains("row 100 (problem 0, head 0, query 100)"), "{error}");
        assert!(verdict(&output, None, &right).unwrap().passes(right.tolerance(None)));
        lse[100] = f32::NAN;
        assert!(verify(&output, &lse, &right).is_err());
    }
}
