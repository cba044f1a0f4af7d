//! Products with a dense result: C = A B with one sparse factor.

use bsr_codegen::{Op, Operand, Plan, Problem, TileScheduler};

use super::{Operands, Stored, further};
use crate::bind::Slots;
use crate::gpu::{DeviceInput, DeviceInputs, UntypedDense, UntypedVector};
use crate::kernel::{fit, program_of};

/// The operands of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a, S: Stored> {
    pub(crate) sparse: S,
    pub(crate) dense: UntypedDense<S::Address>,
    pub(crate) c: UntypedDense<S::Address>,
    /// What else the kernel reads.
    pub(crate) inputs: &'a DeviceInputs<'a, S::Address>,
    /// Where the epilogue's second result goes.
    pub(crate) second: Option<UntypedVector<S::Address>>,
}

impl<S: Stored> Product<'_, S> {
    /// Its extents.
    pub(crate) fn shapes(&self, plan: &Plan) -> fit::Shapes {
        fit::Shapes::of(plan.spec(), self.sparse.structure(), &fit::Operand::from(&self.dense))
    }

    /// Elements from one line to the next of the full operand that the epilogue reads, where it reads one.
    fn tile_line(&self, plan: &Plan) -> usize {
        let tile = || {
            let program = program_of(plan)?;
            let (at, _) = program.tile()?;
            match self.inputs.get(&program.inputs()[at].name)? {
                DeviceInput::Matrix(matrix) => Some(matrix.ld),
                _ => None,
            }
        };
        tile().unwrap_or(self.c.ld)
    }
}

impl<S: Stored> Operands for Product<'_, S> {
    type Address = S::Address;

    fn is_empty(&self) -> bool {
        self.c.rows == 0 || self.c.cols == 0
    }

    fn sum(&self, plan: &Plan) -> Option<(&UntypedDense<S::Address>, bool)> {
        (plan.tile_scheduler() == TileScheduler::CtaPerBlock).then(|| (&self.c, self.sparse.places() > 0))
    }

    fn second(&self) -> Option<UntypedVector<S::Address>> {
        self.second
    }

    fn problem(&self, plan: &Plan) -> Problem {
        let Self { sparse, dense, c, .. } = self;
        Problem {
            m: c.rows as u64,
            n: c.cols as u64,
            k: self.shapes(plan).inner as u64,
            nnzb: sparse.places() as u64,
            lda: dense.ld as u64,
            ldb: dense.ld as u64,
            ldc: c.ld as u64,
            ldt: self.tile_line(plan) as u64,
        }
    }

    fn slots(&self, plan: &Plan) -> Slots<S::Address> {
        let c = self.c.ptr;
        let (sparse, dense) = match self.sparse.places() {
            // Without stored blocks nothing is read: any valid address serves as A and B.
            0 => (c, c),
            _ => (self.sparse.values(), self.dense.ptr),
        };
        let (a, b) = if plan.spec().op == Op::Dds { (dense, sparse) } else { (sparse, dense) };
        let mut slots = Slots::new([(Operand::A, a), (Operand::B, b), (Operand::C, c)]);
        further(&mut slots, plan, c, self.inputs, self.second);
        slots
    }
}
