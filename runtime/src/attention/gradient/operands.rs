//! What a gradient is computed from, on the host.

use bsr_codegen::{GradientProblem, Plan};

use super::super::operands::{check_numbers, shape_of_sizes};
use super::super::{AttentionError, ScoreInputs, Shape, Tensor};
use crate::Element;

/// What an attention read and computed, and the gradients of its results.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'n, T> {
    /// Q, K and V.
    pub tensors: [&'n Tensor<T>; 3],
    /// O.
    pub output: &'n Tensor<T>,
    /// LSE of each query: `[batch, heads, queries]`.
    pub lse: &'n [f32],
    /// dO.
    pub output_gradient: &'n Tensor<T>,
    /// The gradient of LSE, where something depends on it.
    pub lse_gradient: Option<&'n [f32]>,
    /// The scale, and what the score reads.
    pub inputs: ScoreInputs<'n>,
}

impl<T: Element> Saved<'_, T> {
    /// delta of each query: the sum of dO * O, less the gradient of LSE.
    pub fn delta(&self, shape: &Shape) -> Vec<f64> {
        let Shape { heads, queries, .. } = *shape;
        let of_query = |at: usize| {
            let place = [at / (heads * queries), at / queries % heads, at % queries];
            let pairs = self.output.row(place).iter().zip(self.output_gradient.row(place));
            let sum: f64 = pairs.map(|(value, gradient)| value.to_f64() * gradient.to_f64()).sum();
            sum - self.lse_gradient.map_or(0.0, |values| f64::from(values[at]))
        };
        (0..shape.rows()).map(of_query).collect()
    }

    /// The shape of the tensors.
    ///
    /// # Errors
    /// Tensors that do not belong together or to the kernel.
    #[cfg_attr(not(feature = "simulator"), allow(dead_code))]
    pub(super) fn shape(&self, plan: &Plan) -> Result<Shape, AttentionError> {
        let sizes = [self.tensors[0], self.tensors[1], self.tensors[2], self.output, self.output_gradient];
        let of_queries = [Some(self.lse.len()), self.lse_gradient.map(<[f32]>::len)];
        check_numbers(plan, self.inputs.scale, self.inputs.scalars)?;
        shape(plan, sizes.map(Tensor::sizes), of_queries, T::DTYPE)
    }
}

/// The shape of Q, K, V, O and dO of these sizes; `of_queries` are the lengths of LSE and of its gradient.
///
/// # Errors
/// [`AttentionError::Size`] and [`AttentionError::Dtype`] where they do not belong together or to the kernel.
pub(super) fn shape(
    plan: &Plan,
    [q, k, v, o, dout]: [[usize; 4]; 5],
    of_queries: [Option<usize>; 2],
    dtype: bsr_codegen::Dtype,
) -> Result<Shape, AttentionError> {
    let tiles = plan.gradient_tiles().ok_or(AttentionError::Operation(plan.spec().op))?;
    let shape = shape_of_sizes(plan.spec(), [q, k, v], dtype)?;
    shape.check(None)?;
    shape.check_columns(tiles.tiles.columns)?;
    let sizes = [shape.batch, shape.heads, shape.queries, shape.columns];
    for (name, found) in [("O", o), ("dO", dout)] {
        if found != sizes {
            return Err(AttentionError::size(
                format!("{name} is {found:?}"),
                format!("{sizes:?}: problems, heads and queries of Q, columns of V"),
                "tensors of these sizes",
            ));
        }
    }
    for (name, found) in [("LSE", of_queries[0]), ("the gradient of LSE", of_queries[1])] {
        if let Some(found) = found.filter(|found| *found != shape.rows()) {
            return Err(AttentionError::size(
                format!("{name} has {found} elements"),
                format!("problems x heads x queries = {}", shape.rows()),
                "one for each query of each head",
            ));
        }
    }
    Ok(shape)
}

/// The sizes that kernels are given; strides are those of Q, K, V, O, then of dO, dQ, dK, dV.
pub(super) fn problem(shape: &Shape, strides: [bsr_codegen::TensorStrides; 8]) -> GradientProblem {
    let [q, k, v, o, dout, dq, dk, dv] = strides;
    GradientProblem { attention: shape.problem([q, k, v, o], 0, [0; 2]), strides: [dout, dq, dk, dv] }
}
