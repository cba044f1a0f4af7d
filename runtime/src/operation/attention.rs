//! Attentions: O = softmax(scale * Q K^T) V on the blocks of a mask.

use bsr_codegen::{Operand, Plan};

use crate::bind::Slots;

/// The operands of an attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention<'a, A> {
    pub(crate) q: A,
    pub(crate) k: A,
    pub(crate) v: A,
    pub(crate) o: A,
    /// Where each query's LSE goes, if it is asked for.
    pub(crate) lse: Option<A>,
    pub(crate) scale: f32,
    /// The numbers of the score, in the order of its parameters.
    pub(crate) scalars: &'a [f32],
    /// The packed strides of its vectors.
    pub(crate) strides: &'a [u64],
}

impl<A: Copy> Attention<'_, A> {
    /// Where the kernel finds the operands, and the vectors of the score in the order of its parameters. What a parameter is
    /// not given has no slot.
    pub(crate) fn slots(&self, plan: &Plan, mut vectors: impl Iterator<Item = A>) -> Slots<A> {
        let operands = [(Operand::A, self.q), (Operand::B, self.k), (Operand::V, self.v), (Operand::C, self.o)];
        let mut slots = Slots::new(operands);
        slots.operand(Operand::Second, self.lse);
        slots.scale(self.scale);
        let (mut scalars, mut strides) = (self.scalars.iter(), self.strides.iter());
        let inputs = plan.spec().score.map_or(&[][..], |score| score.program().inputs());
        for (at, input) in inputs.iter().enumerate() {
            if !input.kind.is_vector() {
                scalars.next().into_iter().for_each(|value| slots.scalar(at, *value));
                continue;
            }
            if let (Some(vector), Some(packed)) = (vectors.next(), strides.next()) {
                slots.operand(Operand::Epilogue(at), Some(vector));
                slots.strides(at, *packed);
            }
        }
        slots
    }
}
