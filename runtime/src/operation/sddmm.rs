//! SDDMMs: the stored blocks of C = A B, with A and B dense.

use arrayvec::ArrayVec;
use bsr_codegen::{Dtype, LaunchShape, Plan, Problem, TileScheduler};

use super::check::{COORDINATE_BITS, Operand, block, dtype, layout};
use super::{MatrixOperands, Operands, further, inputs};
use crate::Structure;
use crate::bind::Slots;
use crate::epilogue::Supplied;
use crate::error::KernelError;
use crate::gpu::{DeviceInputs, Stored, UntypedDense, UntypedVector};

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

    fn second(&self) -> Option<UntypedVector<S::Address>> {
        self.second
    }

    fn launch(&self, plan: &Plan, grid: [u32; 2]) -> LaunchShape {
        plan.launch(&self.problem(plan), grid)
    }

    fn slots(&self, plan: &Plan) -> Slots<S::Address> {
        let c = self.c.values();
        // Factors without K are not read: any valid address serves.
        let [a, b] = if self.a.cols > 0 { [self.a.ptr, self.b.ptr] } else { [c; 2] };
        let mut slots = Slots::factors(a, b, c);
        further(&mut slots, plan, c, self.inputs, self.second);
        slots
    }
}

impl<S: Stored> MatrixOperands for Sddmm<'_, S> {
    fn check(&self, plan: &Plan) -> Result<(), KernelError> {
        let (c, second) = ((self.c.dtype(), self.c.structure()), self.second.map(|second| second.len));
        check(plan, [&(&self.a).into(), &(&self.b).into()], c, &(self.inputs, self.c.fingerprint()), second)
    }

    fn pattern(&self, _: &Plan) -> (&Structure, usize) {
        (self.c.structure(), self.a.cols)
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

    fn dense(&self, _: &Plan) -> ArrayVec<(&'static str, &UntypedDense<S::Address>), 2> {
        [("A", &self.a), ("B", &self.b)].into()
    }

    fn blocks(&self, _: &Plan) -> ArrayVec<(&'static str, &dyn Stored<Address = S::Address>), 3> {
        [("C", &self.c as _)].into_iter().collect()
    }

    fn inputs(&self) -> &DeviceInputs<'_, S::Address> {
        self.inputs
    }
}

/// Makes sure that A, B, the stored matrix (its element type and structure) and what is supplied besides are what `plan`
/// multiplies. `second` is the length of the second result. Allocates nothing where they are.
///
/// # Errors
/// A kernel of another operation; blocks, shapes, element types, layouts or operands of the epilogue that do not fit, scales,
/// or sizes beyond 32-bit coordinates.
pub(crate) fn check(
    plan: &Plan,
    [a, b]: [&Operand; 2],
    (c_dtype, c): (Dtype, &Structure),
    supplied: &impl Supplied,
    second: Option<usize>,
) -> Result<(), KernelError> {
    let spec = plan.spec();
    if plan.tile_scheduler() != TileScheduler::Sddmm {
        return Err(KernelError::Result { op: spec.op });
    }
    block(plan, c)?;
    let transposed = spec.transpose.is_on();
    let (rows, cols) = if transposed { (b.cols, a.rows) } else { (a.rows, b.cols) };
    if a.cols != b.rows || (rows, cols) != (c.rows(), c.cols()) {
        return Err(KernelError::Shapes {
            a_rows: a.rows,
            a_cols: a.cols,
            b_rows: b.rows,
            b_cols: b.cols,
            c_rows: c.rows(),
            c_cols: c.cols(),
            product: match transposed {
                true => "C^T[n, m] of C[m, n] = A[m, k] * B[k, n] is stored",
                false => "C[m, n] = A[m, k] * B[k, n] is stored",
            },
        });
    }
    dtype("A", "a", a.dtype, spec.a)?;
    dtype("B", "b", b.dtype, spec.b)?;
    dtype("C", "out", c_dtype, spec.out)?;
    layout("A", "a_layout", a.layout, spec.a_layout)?;
    layout("B", "b_layout", b.layout, spec.b_layout)?;
    sizes(c, a.cols)?;
    let ((found, _), expected) = (supplied.scales(), spec.scale);
    if found != expected {
        return Err(KernelError::Scales { found, expected });
    }
    inputs::check(plan, (c.rows(), c.cols()), supplied, second)
}

/// Makes sure that every coordinate fits the kernel's registers.
///
/// # Errors
/// [`KernelError::TooLarge`].
pub(crate) fn sizes(c: &Structure, k: usize) -> Result<(), KernelError> {
    for (what, value) in [
        ("rows of the stored matrix", c.rows()),
        ("columns of the stored matrix", c.cols()),
        ("columns of A", k),
        ("stored blocks", c.nnzb()),
    ] {
        if value as u64 >= 1 << COORDINATE_BITS {
            return Err(KernelError::TooLarge { what, value: value as u64, bits: COORDINATE_BITS });
        }
    }
    Ok(())
}
