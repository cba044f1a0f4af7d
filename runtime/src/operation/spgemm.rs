//! Products of two block-sparse matrices: C = A B, with C dense or in blocks.

use arrayvec::ArrayVec;
use bsr_codegen::{Dtype, LaunchShape, Op, Plan, Problem, Refusal};

use super::check::{COORDINATE_BITS, Operand, block, dtype, layout};
use super::on_matrices::{Listed, Matrix};
use super::product::tile_line;
use super::{MatrixOperands, Operands, further, inputs};
use crate::bind::Slots;
use crate::epilogue::Supplied;
use crate::error::KernelError;
use crate::gpu::{DeviceInputs, Stored, UntypedDense, UntypedVector};
use crate::{Scales, Structure};

/// The operands of a product of two block-sparse matrices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spgemm<'a, S: Stored> {
    pub(crate) a: S,
    pub(crate) b: S,
    pub(crate) c: Matrix<S, S::Address>,
    /// What else the kernel reads.
    pub(crate) inputs: &'a DeviceInputs<'a, S::Address>,
    /// Where the epilogue's second result goes.
    pub(crate) second: Option<UntypedVector<S::Address>>,
}

impl<S: Stored> Spgemm<'_, S> {
    /// What its work is listed of.
    pub(super) fn listed(&self) -> Listed<'_, S> {
        Listed::Pairs(&self.a, &self.b, self.c.sparse())
    }

    fn c(&self) -> S::Address {
        match &self.c {
            Matrix::Sparse(c) => c.values(),
            Matrix::Dense(c) => c.ptr,
        }
    }
}

impl<S: Stored> Operands for Spgemm<'_, S> {
    type Address = S::Address;

    fn is_empty(&self) -> bool {
        match &self.c {
            Matrix::Sparse(c) => c.places() == 0,
            Matrix::Dense(c) => c.rows == 0 || c.cols == 0,
        }
    }

    fn second(&self) -> Option<UntypedVector<S::Address>> {
        self.second
    }

    fn launch(&self, plan: &Plan, grid: [u32; 2]) -> LaunchShape {
        plan.launch(&self.problem(plan), grid)
    }

    fn slots(&self, plan: &Plan) -> Slots<S::Address> {
        let c = self.c();
        // Of a matrix without blocks nothing is read: any valid address serves.
        let [a, b] = [&self.a, &self.b].map(|of| if of.places() == 0 { c } else { of.values() });
        let mut slots = Slots::factors(a, b, c);
        further(&mut slots, plan, c, self.inputs, self.second);
        slots
    }
}

impl<S: Stored> MatrixOperands for Spgemm<'_, S> {
    fn check(&self, plan: &Plan) -> Result<(), KernelError> {
        let [a, b] = [&self.a, &self.b].map(|of| (of.dtype(), of.structure()));
        let c = match &self.c {
            Matrix::Sparse(c) => Target::Blocks(c.dtype(), c.structure()),
            Matrix::Dense(c) => Target::Dense(c.into()),
        };
        let supplied = (self.inputs, self.c.sparse().and_then(S::fingerprint));
        check(plan, [a, b], c, &supplied, self.second.map(|second| second.len))
    }

    fn pattern(&self, _: &Plan) -> (&Structure, usize) {
        (self.a.structure(), self.b.structure().cols())
    }

    fn problem(&self, plan: &Plan) -> Problem {
        let Self { a, b, c, .. } = self;
        let [bm, bn, bk] = [plan.spec().bm, plan.spec().bn, plan.spec().bk].map(|side| side as usize);
        let (m, n, ldc) = match c {
            Matrix::Sparse(c) => (c.places() * bm, bn, bn),
            Matrix::Dense(c) => (c.rows, c.cols, c.ld),
        };
        Problem {
            m: m as u64,
            n: n as u64,
            k: (b.places() * bk) as u64,
            nnzb: a.places() as u64,
            ldc: ldc as u64,
            ldt: tile_line(plan, self.inputs).unwrap_or(ldc) as u64,
            ..Problem::default()
        }
    }

    fn dense(&self, _: &Plan) -> ArrayVec<(&'static str, &UntypedDense<S::Address>), 2> {
        match &self.c {
            Matrix::Sparse(_) => ArrayVec::new(),
            Matrix::Dense(c) => [("C", c)].into_iter().collect(),
        }
    }

    fn blocks(&self, _: &Plan) -> ArrayVec<(&'static str, &dyn Stored<Address = S::Address>), 3> {
        let c = self.c.sparse().map(|c| ("C", c as &dyn Stored<Address = S::Address>));
        [("A", &self.a as _), ("B", &self.b as _)].into_iter().chain(c).collect()
    }

    fn inputs(&self) -> &DeviceInputs<'_, S::Address> {
        self.inputs
    }
}

/// The result as a check sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'c> {
    Dense(Operand),
    /// Its element type and its blocks.
    Blocks(Dtype, &'c Structure),
}

/// Makes sure that two sparse factors (their element types and structures), the result and what is supplied besides are what
/// `plan` multiplies. `second` is the length of the second result.
///
/// # Errors
/// A kernel of another operation; blocks, shapes, element types, layouts or operands of the epilogue that do not fit, scales,
/// or sizes beyond 32-bit coordinates.
pub(crate) fn check(
    plan: &Plan,
    [(a_dtype, a), (b_dtype, b)]: [(Dtype, &Structure); 2],
    c: Target<'_>,
    supplied: &impl Supplied,
    second: Option<usize>,
) -> Result<(), KernelError> {
    let spec = plan.spec();
    let (c_dtype, shape, pattern) = match c {
        Target::Dense(c) => (c.dtype, (c.rows, c.cols), None),
        Target::Blocks(dtype, c) => (dtype, (c.rows(), c.cols()), Some(c)),
    };
    check_patterns(plan, a, b, pattern)?;
    if shape != (a.rows(), b.cols()) {
        return Err(shapes(a, b, shape));
    }
    dtype("A", "a", a_dtype, spec.a)?;
    dtype("B", "b", b_dtype, spec.b)?;
    dtype("C", "out", c_dtype, spec.out)?;
    if let Target::Dense(c) = c {
        layout("C", "c_layout", c.layout, spec.c_layout)?;
    }
    let ((found, counts), expected) = (supplied.scales(), spec.scale);
    if found != expected {
        return Err(KernelError::Scales { found, expected });
    }
    Scales::check_lengths(found, counts, a, b.cols())?;
    inputs::check(plan, shape, supplied, second)
}

/// Makes sure that the patterns are those of a product that `plan` multiplies: A, B, and C where it is in blocks.
///
/// # Errors
/// A kernel of another operation; other blocks, shapes that do not multiply, sizes beyond 32-bit coordinates.
pub(crate) fn check_patterns(
    plan: &Plan,
    a: &Structure,
    b: &Structure,
    c: Option<&Structure>,
) -> Result<(), KernelError> {
    let spec = plan.spec();
    match (spec.op, c) {
        (Op::Dss, None) | (Op::Sss, Some(_)) => {}
        (Op::Dss | Op::Sss, _) => return Err(KernelError::Result { op: spec.op }),
        (expected, _) => return Err(KernelError::Factors { expected }),
    }
    block(plan, a)?;
    blocks_of("B", b, (("bk", spec.bk), ("bn", spec.bn)))?;
    let (rows, cols) = c.map_or((a.rows(), b.cols()), |c| (c.rows(), c.cols()));
    if a.cols() != b.rows() || (rows, cols) != (a.rows(), b.cols()) {
        return Err(shapes(a, b, (rows, cols)));
    }
    c.map_or(Ok(()), |c| blocks_of("C", c, (("bm", spec.bm), ("bn", spec.bn))))?;
    let lines = |of: &Structure| of.nnzb() as u64 * of.block().0 as u64;
    for (what, value) in [
        ("rows of A", a.rows() as u64),
        ("columns of B", b.cols() as u64),
        ("stored blocks of B x their rows", lines(b)),
        ("stored blocks of C x their rows", c.map_or(0, lines)),
    ] {
        if value >= 1 << COORDINATE_BITS {
            return Err(KernelError::TooLarge { what, value, bits: COORDINATE_BITS });
        }
    }
    Ok(())
}

fn shapes(a: &Structure, b: &Structure, (c_rows, c_cols): (usize, usize)) -> KernelError {
    KernelError::Shapes {
        a_rows: a.rows(),
        a_cols: a.cols(),
        b_rows: b.rows(),
        b_cols: b.cols(),
        c_rows,
        c_cols,
        product: "C[m, n] = A[m, k] * B[k, n]",
    }
}

/// Makes sure that B or C has the kernel's blocks, whose sides are values of keys.
///
/// # Errors
/// The blocks that it has.
fn blocks_of(
    operand: &str,
    found: &Structure,
    ((rows_key, rows), (cols_key, cols)): ((&str, u32), (&str, u32)),
) -> Result<(), KernelError> {
    let (height, width) = found.block();
    if (height, width) == (rows as usize, cols as usize) {
        return Ok(());
    }
    Err(Refusal::new(format!("{operand} has {height} x {width} blocks, the kernel multiplies {rows} x {cols} blocks"))
        .why(format!("blocks of {operand} are {rows_key} x {cols_key}"))
        .help(format!("a kernel with {rows_key} = {height}, {cols_key} = {width}, or re-block {operand}"))
        .into())
}
