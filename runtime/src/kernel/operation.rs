//! Which operands of a product are sparse: what `op` says, as types.

use std::fmt::Debug;

use bsr_codegen::Op;

use crate::gpu::{Device, DeviceBsr, DeviceDense, GpuError, Plain, UntypedBsr, UntypedDense};
use crate::{Bsr, Dense, Element};

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
}

impl Operation for Dsd {
    const OP: Op = Op::Dsd;
    type A<T: Element + Plain> = DeviceBsr<T>;
    type B<T: Element + Plain> = DeviceDense<T>;
    type Sparse<A: Element + Plain, B: Element + Plain> = A;
}

impl Operation for Dds {
    const OP: Op = Op::Dds;
    type A<T: Element + Plain> = DeviceDense<T>;
    type B<T: Element + Plain> = DeviceBsr<T>;
    type Sparse<A: Element + Plain, B: Element + Plain> = B;
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
}

impl<T: Element + Plain> Factor for DeviceBsr<T> {
    type Host = Bsr<T>;

    fn upload(device: &Device, host: &Bsr<T>) -> Result<Self, GpuError> {
        Self::upload(device, host)
    }
}

impl<T: Element + Plain> Factor for DeviceDense<T> {
    type Host = Dense<T>;

    fn upload(device: &Device, host: &Dense<T>) -> Result<Self, GpuError> {
        Self::upload(device, host)
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
