//! Gradients of attentions: dQ, or dK and dV.

use std::fmt::Debug;

use bsr_codegen::{GradientProblem, LaunchShape, Operand, Plan, Problem};

use super::Operands;
use super::attention::of_score;
use crate::bind::Slots;

/// The operands of one kernel of a gradient.
#[derive(Clone, Debug)]
pub(crate) struct Gradient<'a, A> {
    /// Q, K, V, O and dO.
    pub(crate) tensors: [A; 5],
    pub(crate) lse: A,
    /// The gradient of LSE, where something depends on it.
    pub(crate) lse_gradient: Option<A>,
    /// What the kernel of dQ writes and that of dK and dV reads.
    pub(crate) row_terms: A,
    /// dQ or dK.
    pub(crate) first: A,
    /// dV, of the kernel of dK and dV.
    pub(crate) second: Option<A>,
    /// Where sums of the score's gradients go, of a kernel that has some.
    pub(crate) score_sums: Option<A>,
    pub(crate) scale: f32,
    /// The numbers of the score, in the order of its parameters.
    pub(crate) scalars: &'a [f32],
    /// Its vectors and their packed strides, in the same order.
    pub(crate) vectors: Vec<(A, u64)>,
    /// The sizes that the kernel is given.
    pub(crate) problem: GradientProblem,
}

impl<A: Copy + Debug> Operands for Gradient<'_, A> {
    type Address = A;

    /// Without rows the lists have no tile.
    fn is_empty(&self) -> bool {
        false
    }

    fn launch(&self, plan: &Plan, grid: [u32; 2]) -> LaunchShape {
        // A kernel of another operation has parameters for which there are no slots.
        plan.gradient_launch(&self.problem, grid[0]).unwrap_or_else(|| plan.launch(&Problem::default(), grid))
    }

    fn slots(&self, plan: &Plan) -> Slots<A> {
        let [q, k, v, o, dout] = self.tensors;
        let mut slots = Slots::new([
            (Operand::A, q),
            (Operand::B, k),
            (Operand::V, v),
            (Operand::Output, o),
            (Operand::OutputGradient, dout),
            (Operand::Second, self.lse),
            (Operand::RowTerms, self.row_terms),
            (Operand::C, self.first),
        ]);
        slots.operand(Operand::LseGradient, self.lse_gradient);
        if self.second.is_some() {
            slots.operand(Operand::ValueGradient, self.second);
        }
        if self.score_sums.is_some() {
            slots.operand(Operand::ScoreSums, self.score_sums);
        }
        slots.scale(self.scale);
        of_score(&mut slots, plan, self.scalars, &self.vectors);
        slots
    }
}
