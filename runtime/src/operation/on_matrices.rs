//! Which operation a launch on matrices is, by the `op` of its kernel.

use bsr_codegen::{KernelSpec, Op, Plan};

use super::check::{COORDINATE_BITS, Operand};
use super::product::{self, Shapes};
use super::{Matrices, Product, Sddmm, Spgemm, sddmm};
use crate::Structure;
use crate::error::KernelError;
use crate::gpu::{DeviceInputs, DevicePtr, NO_INPUTS, Stored, UntypedDense, UntypedVector};

/// A matrix in the memory of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Matrix<S, A> {
    Sparse(S),
    Dense(UntypedDense<A>),
}

impl<S, A> Matrix<S, A> {
    /// The matrix in blocks, if it is one.
    pub(crate) fn sparse(&self) -> Option<&S> {
        match self {
            Self::Sparse(sparse) => Some(sparse),
            Self::Dense(_) => None,
        }
    }
}

impl<S: Stored> Matrix<S, S::Address> {
    fn shape(&self) -> (usize, usize) {
        match self {
            Self::Sparse(sparse) => (sparse.structure().rows(), sparse.structure().cols()),
            Self::Dense(dense) => (dense.rows, dense.cols),
        }
    }
}

/// The operands of a product or of an SDDMM.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnMatrices<'i, S: Stored> {
    Product(Product<'i, S>),
    Sddmm(Sddmm<'i, S>),
    Spgemm(Spgemm<'i, S>),
}

/// What the work of a launch is listed of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listed<'o, S> {
    /// The blocks of one matrix, and the extent of the product that they do not say.
    Blocks(&'o S, usize),
    /// Those of both factors, and of a result in blocks.
    Pairs(&'o S, &'o S, Option<&'o S>),
}

/// Which of them an `op` has.
enum Kind {
    Product,
    Sddmm,
    Spgemm,
}

impl Kind {
    /// # Errors
    /// [`KernelError::Factors`] of an operation on other operands.
    fn of(op: Op) -> Result<Self, KernelError> {
        match op {
            Op::Dsd | Op::Dds => Ok(Self::Product),
            Op::Sdd => Ok(Self::Sddmm),
            Op::Dss | Op::Sss => Ok(Self::Spgemm),
            expected => Err(KernelError::Factors { expected }),
        }
    }
}

impl<'i, S: Stored> OnMatrices<'i, S> {
    /// Those of an operation on two factors, with its result.
    ///
    /// # Errors
    /// [`KernelError::Factors`] and [`KernelError::Result`] where the operation has others.
    pub(crate) fn new(
        op: Op,
        [a, b, c]: [Matrix<S, S::Address>; 3],
        inputs: &'i DeviceInputs<'i, S::Address>,
        second: Option<UntypedVector<S::Address>>,
    ) -> Result<Self, KernelError> {
        match (Kind::of(op)?, a, b, c) {
            (Kind::Sddmm, Matrix::Dense(a), Matrix::Dense(b), Matrix::Sparse(c)) => {
                Ok(Self::Sddmm(Sddmm { a, b, c, inputs, second }))
            }
            (Kind::Spgemm, Matrix::Sparse(a), Matrix::Sparse(b), c) => match op.stores_blocks() == c.sparse().is_some()
            {
                true => Ok(Self::Spgemm(Spgemm { a, b, c, inputs, second })),
                false => Err(KernelError::Result { op }),
            },
            (Kind::Sddmm | Kind::Spgemm, ..) => Err(KernelError::Factors { expected: op }),
            (Kind::Product, a, b, c) => {
                let (sparse, dense) = factors(op, a, b)?;
                match c {
                    Matrix::Dense(c) => Ok(Self::Product(Product { sparse, dense, c, inputs, second })),
                    Matrix::Sparse(_) => Err(KernelError::Result { op }),
                }
            }
        }
    }

    pub(crate) fn operands(&self) -> &Matrices<'_, S::Address> {
        match self {
            Self::Product(product) => product,
            Self::Sddmm(sddmm) => sddmm,
            Self::Spgemm(spgemm) => spgemm,
        }
    }

    /// What its work is listed of.
    pub(crate) fn listed(&self, plan: &Plan) -> Listed<'_, S> {
        let along = self.operands().pattern(plan).1;
        match self {
            Self::Product(product) => Listed::Blocks(&product.sparse, along),
            Self::Sddmm(sddmm) => Listed::Blocks(&sddmm.c, along),
            Self::Spgemm(spgemm) => spgemm.listed(),
        }
    }

    /// The same operation on other matrices: each dense one and those in blocks, of which it is said whether it is the
    /// result.
    ///
    /// # Errors
    /// Those of `dense`.
    pub(crate) fn map<T: Stored<Address = S::Address>>(
        &self,
        dense: impl Fn(&UntypedDense<S::Address>) -> Result<UntypedDense<S::Address>, KernelError>,
        blocks: impl Fn(&S, bool) -> T,
    ) -> Result<OnMatrices<'i, T>, KernelError> {
        Ok(match self {
            Self::Product(Product { sparse, dense: factor, c, inputs, second }) => OnMatrices::Product(Product {
                sparse: blocks(sparse, false),
                dense: dense(factor)?,
                c: dense(c)?,
                inputs,
                second: *second,
            }),
            Self::Sddmm(Sddmm { a, b, c, inputs, second }) => {
                OnMatrices::Sddmm(Sddmm { a: dense(a)?, b: dense(b)?, c: blocks(c, true), inputs, second: *second })
            }
            Self::Spgemm(Spgemm { a, b, c, inputs, second }) => {
                let c = match c {
                    Matrix::Sparse(c) => Matrix::Sparse(blocks(c, true)),
                    Matrix::Dense(c) => Matrix::Dense(dense(c)?),
                };
                OnMatrices::Spgemm(Spgemm { a: blocks(a, false), b: blocks(b, false), c, inputs, second: *second })
            }
        })
    }
}

impl<S: Stored<Address = DevicePtr> + Clone> OnMatrices<'_, S> {
    /// The same without further inputs and a second result.
    pub(crate) fn alone(&self) -> OnMatrices<'static, S> {
        let (inputs, second) = (&NO_INPUTS, None);
        match self.clone() {
            OnMatrices::Product(Product { sparse, dense, c, .. }) => {
                OnMatrices::Product(Product { sparse, dense, c, inputs, second })
            }
            OnMatrices::Sddmm(Sddmm { a, b, c, .. }) => OnMatrices::Sddmm(Sddmm { a, b, c, inputs, second }),
            OnMatrices::Spgemm(Spgemm { a, b, c, .. }) => OnMatrices::Spgemm(Spgemm { a, b, c, inputs, second }),
        }
    }
}

/// The sparse factor and the dense one.
///
/// # Errors
/// [`KernelError::Factors`] where the operation multiplies others.
fn factors<S: Stored>(
    op: Op,
    a: Matrix<S, S::Address>,
    b: Matrix<S, S::Address>,
) -> Result<(S, UntypedDense<S::Address>), KernelError> {
    match (op, a, b) {
        (Op::Dsd, Matrix::Sparse(sparse), Matrix::Dense(dense))
        | (Op::Dds, Matrix::Dense(dense), Matrix::Sparse(sparse)) => Ok((sparse, dense)),
        (expected, ..) => Err(KernelError::Factors { expected }),
    }
}

/// Rows and columns of the result for two factors.
///
/// # Errors
/// [`KernelError::Factors`] where the operation multiplies others.
pub(crate) fn result_shape<S: Stored>(
    spec: &KernelSpec,
    a: Matrix<S, S::Address>,
    b: Matrix<S, S::Address>,
) -> Result<(usize, usize), KernelError> {
    match Kind::of(spec.op)? {
        Kind::Product => {
            let (sparse, dense) = factors(spec.op, a, b)?;
            Ok(Shapes::of(spec, sparse.structure(), &Operand::from(&dense)).result)
        }
        Kind::Sddmm => {
            let (m, n) = (a.shape().0, b.shape().1);
            Ok(if spec.transpose.is_on() { (n, m) } else { (m, n) })
        }
        Kind::Spgemm => Ok((a.shape().0, b.shape().1)),
    }
}

/// Makes sure that every coordinate of a launch on a pattern, with an extent that it does not say, fits the kernel.
///
/// # Errors
/// [`KernelError::TooLarge`], [`KernelError::Grid`].
pub(crate) fn check_sizes(plan: &Plan, stored: &Structure, along: usize) -> Result<(), KernelError> {
    match Kind::of(plan.spec().op)? {
        Kind::Product => product::sizes(plan, stored, along),
        Kind::Sddmm => sddmm::sizes(stored, along),
        // One pattern does not say what its work is.
        Kind::Spgemm => Err(KernelError::Factors { expected: plan.spec().op }),
    }
}

/// Makes sure that a batch of problems with these patterns has no more than its kernel counts.
///
/// # Errors
/// [`KernelError::TooLarge`].
pub(crate) fn check_batch(plan: &Plan, patterns: &[(&Structure, usize)]) -> Result<(), KernelError> {
    let blocks = || patterns.iter().map(|(structure, _)| structure.nnzb() as u64).sum::<u64>();
    let (what, value, bits) = match Kind::of(plan.spec().op)? {
        Kind::Product | Kind::Spgemm => ("stored blocks of the batch", blocks(), 31),
        Kind::Sddmm => ("problems of the batch", patterns.len() as u64, COORDINATE_BITS),
    };
    if value >= 1 << bits { Err(KernelError::TooLarge { what, value, bits }) } else { Ok(()) }
}
