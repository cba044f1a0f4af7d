//! Attentions: O = softmax(scale * Q K^T) V on the blocks of a mask.

use std::fmt::Debug;
use std::sync::Arc;

use bsr_codegen::{AttentionProblem, LaunchShape, Operand, Plan, Problem};

use super::Operands;
use crate::bind::Slots;

/// The operands of an attention.
#[derive(Clone, Debug)]
pub(crate) struct Attention<'a, A> {
    pub(crate) q: A,
    pub(crate) k: A,
    pub(crate) v: A,
    pub(crate) o: A,
    /// Where each query's LSE goes, if it is asked for.
    pub(crate) lse: Option<A>,
    pub(crate) scale: f32,
    /// Of a kernel with `sinks = on`: where the sink of each head is.
    pub(crate) sinks: Option<A>,
    /// Of a kernel with `page`: where the page table is.
    pub(crate) pages: Option<A>,
    /// Of a kernel with factors: where those of Q, K and V are.
    pub(crate) factors: Option<[A; 3]>,
    /// Of a kernel with `work_list`: the list.
    pub(crate) list: Option<Arc<[u32]>>,
    /// The numbers of the score, in the order of its parameters.
    pub(crate) scalars: &'a [f32],
    /// Its vectors and their packed strides, in the same order.
    pub(crate) vectors: Vec<(A, u64)>,
    /// The sizes that the kernel is given.
    pub(crate) problem: AttentionProblem,
}

impl<A: Copy + Debug> Operands for Attention<'_, A> {
    type Address = A;

    /// Without queries the lists have no tile.
    fn is_empty(&self) -> bool {
        false
    }

    fn launch(&self, plan: &Plan, grid: [u32; 2]) -> LaunchShape {
        // A kernel of another operation has parameters for which there are no slots.
        plan.attention_launch(&self.problem, grid[0]).unwrap_or_else(|| plan.launch(&Problem::default(), grid))
    }

    /// Where the kernel finds the operands, and the vectors of the score in the order of its parameters. What a parameter is
    /// not given has no slot.
    fn slots(&self, plan: &Plan) -> Slots<A> {
        let operands = [(Operand::A, self.q), (Operand::B, self.k), (Operand::V, self.v), (Operand::C, self.o)];
        let mut slots = Slots::new(operands);
        slots.operand(Operand::Second, self.lse);
        if self.sinks.is_some() {
            slots.operand(Operand::Sinks, self.sinks);
        }
        if self.pages.is_some() {
            slots.operand(Operand::Pages, self.pages);
        }
        for (operand, at) in
            [Operand::ScaleA, Operand::ScaleB, Operand::ScaleV].into_iter().zip(self.factors.into_iter().flatten())
        {
            slots.operand(operand, Some(at));
        }
        if let Some(list) = &self.list {
            slots.list(Arc::clone(list));
        }
        slots.scale(self.scale);
        of_score(&mut slots, plan, self.scalars, &self.vectors);
        slots
    }
}

/// The numbers and vectors of a plan's score, in the order of its parameters.
pub(super) fn of_score<A: Copy>(slots: &mut Slots<A>, plan: &Plan, scalars: &[f32], vectors: &[(A, u64)]) {
    let (mut scalars, mut vectors) = (scalars.iter(), vectors.iter());
    let inputs = plan.spec().score.map_or(&[][..], |score| score.program().inputs());
    for (at, input) in inputs.iter().enumerate() {
        if !input.kind.is_vector() {
            scalars.next().into_iter().for_each(|value| slots.scalar(at, *value));
        } else if let Some((vector, packed)) = vectors.next() {
            slots.operand(Operand::Epilogue(at), Some(*vector));
            slots.strides(at, *packed);
        }
    }
}
