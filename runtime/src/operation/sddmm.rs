//! SDDMMs: the stored blocks of C = A B, with A and B dense.

use bsr_codegen::{Operand, Plan, Problem};

use super::{Operands, Stored, further};
use crate::bind::Slots;
use crate::gpu::{DeviceInputs, UntypedDense, UntypedVector};

/// The operands of an SDDMM.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sddmm<'a, S: Stored> {
    pub(crate) a: UntypedDense<S::Address>,
    pub(crate) b: UntypedDense<S::Address>,
    /// The result: C^T under `transpose = on`.
    pub(crate) c: S,
    /// What else the kernel reads.
    pub(crate) inputs: &'a DeviceInputs<'a, S::Address>,
    /// Where the epilogue's second result goes.
    pub(crate) second: Option<UntypedVector<S::Address>>,
}

impl<S: Stored> Operands for Sddmm<'_, S> {
    type Address = S::Address;

    fn is_empty(&self) -> bool {
        self.c.places() == 0
    }

    fn sum(&self, _: &Plan) -> Option<(&UntypedDense<S::Address>, bool)> {
        None
    }

    fn second(&self) -> Option<UntypedVector<S::Address>> {
        self.second
    }

    fn problem(&self, _: &Plan) -> Problem {
        let Self { a, b, c, .. } = self;
        Problem {
            m: a.rows as u64,
            n: b.cols as u64,
            k: a.cols as u64,
            nnzb: c.places() as u64,
            lda: a.ld as u64,
            ldb: b.ld as u64,
            ..Problem::default()
        }
    }

    fn slots(&self, plan: &Plan) -> Slots<S::Address> {
        let c = self.c.values();
        // Factors without K are not read: any valid address serves.
        let [a, b] = if self.a.cols > 0 { [self.a.ptr, self.b.ptr] } else { [c; 2] };
        let mut slots = Slots::new([(Operand::A, a), (Operand::B, b), (Operand::C, c)]);
        further(&mut slots, plan, c, self.inputs, self.second);
        slots
    }
}
