//! Which operands of a product are sparse: what `op` says, as types.

use std::fmt::Debug;

use bsr_codegen::{KernelSpec, Op};

use crate::gpu::{Device, DeviceBsr, DeviceDense, Fingerprint, GpuError, Plain, UntypedBsr, UntypedDense};
use crate::reference::product_rows;
use crate::{Bsr, Dense, Element, KernelError, Scales, Structure};

/// A product of two matrices, by which of them are sparse.
///
/// ```
/// use bsr_runtime::kernel::{Dds, Operation};
/// use bsr_runtime::gpu::{DeviceBsr, DeviceDense};
/// use half::f16;
///
/// fn factors(_: &DeviceDense<f16>, _: &DeviceBsr<f16>) {}
/// let _: fn(&<Dds as Operation>::A<f16>, &<Dds as Operation>::B<f16>) = factors;
/// ```
pub trait Operation: Debug + Sized + 'static {
    /// The `op` of the spec.
    const OP: Op;
    /// The first factor.
    type A<T: Element + Plain>: Factor;
    /// The second factor.
    type B<T: Element + Plain>: Factor;
    /// The element type of the sparse one of two factors of these types.
    type Sparse<A: Element + Plain, B: Element + Plain>: Element + Plain;

    /// Chosen rows of the product in f64, on the host, after all work on the device: `spec` says whether the sparse factor
    /// is transposed.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] of the copies, [`KernelError::Reference`] for factors or rows that do not belong together, and
    /// [`KernelError::Factors`] of an operation without a dense result.
    fn reference_rows<A: Element + Plain, B: Element + Plain>(
        spec: &KernelSpec,
        a: &Self::A<A>,
        b: &Self::B<B>,
        rows: &[usize],
    ) -> Result<Vec<f64>, KernelError>;
}

/// C = A B with a sparse A.
#[derive(Clone, Copy, Debug)]
pub enum Dsd {}

/// C = A B with a sparse B.
#[derive(Clone, Copy, Debug)]
pub enum Dds {}

/// The stored blocks of C = A B, or of C^T, with both factors dense.
#[derive(Clone, Copy, Debug)]
pub enum Sdd {}

impl Operation for Sdd {
    const OP: Op = Op::Sdd;
    type A<T: Element + Plain> = DeviceDense<T>;
    type B<T: Element + Plain> = DeviceDense<T>;
    type Sparse<A: Element + Plain, B: Element + Plain> = A;

    fn reference_rows<A: Element + Plain, B: Element + Plain>(
        _: &KernelSpec,
        _: &DeviceDense<A>,
        _: &DeviceDense<B>,
        _: &[usize],
    ) -> Result<Vec<f64>, KernelError> {
        Err(KernelError::Factors { expected: Op::Sdd })
    }
}

impl Operation for Dsd {
    const OP: Op = Op::Dsd;
    type A<T: Element + Plain> = DeviceBsr<T>;
    type B<T: Element + Plain> = DeviceDense<T>;
    type Sparse<A: Element + Plain, B: Element + Plain> = A;

    fn reference_rows<A: Element + Plain, B: Element + Plain>(
        spec: &KernelSpec,
        a: &DeviceBsr<A>,
        b: &DeviceDense<B>,
        rows: &[usize],
    ) -> Result<Vec<f64>, KernelError> {
        Ok(product_rows(spec, &a.download()?, &b.download()?, &Scales::NONE, rows)?)
    }
}

impl Operation for Dds {
    const OP: Op = Op::Dds;
    type A<T: Element + Plain> = DeviceDense<T>;
    type B<T: Element + Plain> = DeviceBsr<T>;
    type Sparse<A: Element + Plain, B: Element + Plain> = B;

    fn reference_rows<A: Element + Plain, B: Element + Plain>(
        spec: &KernelSpec,
        a: &DeviceDense<A>,
        b: &DeviceBsr<B>,
        rows: &[usize],
    ) -> Result<Vec<f64>, KernelError> {
        Ok(product_rows(spec, &b.download()?, &a.download()?, &Scales::NONE, rows)?)
    }
}

/// A factor of a product in device memory: a [`DeviceBsr`] or a [`DeviceDense`].
pub trait Factor: Sized + sealed::Sealed {
    /// The same on the host.
    type Host;

    /// Copies it to the device.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    fn upload(device: &Device, host: &Self::Host) -> Result<Self, GpuError>;

    /// Copies it to the host, after all work on the device.
    ///
    /// # Errors
    /// As [`DeviceBsr::download`] and [`DeviceDense::download`].
    fn download(&self) -> Result<Self::Host, GpuError>;

    /// Rows and columns.
    fn shape(&self) -> (usize, usize);

    /// Where the stored blocks are, and what tells the pattern from others; none of a dense matrix.
    fn pattern(&self) -> Option<(&Structure, Fingerprint)>;
}

impl<T: Element + Plain> Factor for DeviceBsr<T> {
    type Host = Bsr<T>;

    fn upload(device: &Device, host: &Bsr<T>) -> Result<Self, GpuError> {
        Self::upload(device, host)
    }

    fn download(&self) -> Result<Bsr<T>, GpuError> {
        self.download()
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows(), self.cols())
    }

    fn pattern(&self) -> Option<(&Structure, Fingerprint)> {
        Some((self.structure(), self.fingerprint()))
    }
}

impl<T: Element + Plain> Factor for DeviceDense<T> {
    type Host = Dense<T>;

    fn upload(device: &Device, host: &Dense<T>) -> Result<Self, GpuError> {
        Self::upload(device, host)
    }

    fn download(&self) -> Result<Dense<T>, GpuError> {
        self.download()
    }

    fn shape(&self) -> (usize, usize) {
        (self.rows(), self.cols())
    }

    fn pattern(&self) -> Option<(&Structure, Fingerprint)> {
        None
    }
}

/// A factor whose kind and element type are values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UntypedFactor<'a> {
    Sparse(UntypedBsr<'a>),
    Dense(UntypedDense),
}

pub(crate) mod sealed {
    use super::UntypedFactor;

    /// What a launch reads of a factor.
    pub trait Sealed {
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn factor(&self) -> UntypedFactor<'_>;
    }
}

#[allow(private_interfaces)]
impl<T: Element + Plain> sealed::Sealed for DeviceBsr<T> {
    fn factor(&self) -> UntypedFactor<'_> {
        UntypedFactor::Sparse(self.untyped())
    }
}

#[allow(private_interfaces)]
impl<T: Element + Plain> sealed::Sealed for DeviceDense<T> {
    fn factor(&self) -> UntypedFactor<'_> {
        UntypedFactor::Dense(self.untyped())
    }
}
