//! Which matrices of a product are sparse: what `op` says, as types.

use std::fmt::Debug;

use bsr_codegen::{KernelSpec, Layout, Op};

use super::matrix::DeviceMatrix;
#[cfg(feature = "simulator")]
use super::outcome::{Outcome, Values};
use super::sample::Sample;
use crate::error::KernelError;
#[cfg(feature = "simulator")]
use crate::error::SimulatedError;
use crate::gpu::{Device, DeviceBsr, DeviceDense, GpuError, Plain, StreamRef, held, initial};
use crate::reference::Comparison;
use crate::{Dense, Element, Inputs, Structure};

/// A product of two matrices, by which of the three are sparse.
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
    /// The first factor in device memory.
    type A<T: Element + Plain>: DeviceMatrix;
    /// The second factor in device memory.
    type B<T: Element + Plain>: DeviceMatrix;
    /// The result in device memory.
    type C<T: Element + Plain>: DeviceMatrix;
    /// The element type of the sparse one of three matrices of these types.
    type Sparse<A: Element + Plain, B: Element + Plain, C: Element + Plain>: Element + Plain;

    /// A result for a kernel of `spec` to write: of so many rows and columns, or in the blocks of a pattern, with what `inputs`
    /// say that it holds before.
    #[doc(hidden)]
    fn result<T: Element + Plain>(
        place: (&Device, StreamRef<'_>),
        spec: &KernelSpec,
        shape: (usize, usize),
        pattern: Option<&Structure>,
        inputs: &Inputs,
    ) -> Result<Self::C<T>, KernelError>;

    /// A sample of the product in f64, on the host, after all work on the device on which the factors lie: of a kernel of
    /// `spec` without an epilogue, scales or an order, and of a sparse result the blocks of a pattern.
    #[doc(hidden)]
    fn sample<A: Element + Plain, B: Element + Plain>(
        device: &Device,
        spec: &KernelSpec,
        a: &Self::A<A>,
        b: &Self::B<B>,
        pattern: Option<&Structure>,
    ) -> Result<Sample, KernelError>;

    /// How far a result is from a sample.
    #[doc(hidden)]
    fn compare<C: Element + Plain>(c: &Self::C<C>, sample: &Sample) -> Result<Comparison, KernelError>;

    /// What the simulator left of a result in the blocks of a pattern, or of a dense one, as a matrix.
    #[doc(hidden)]
    #[cfg(feature = "simulator")]
    #[allow(private_interfaces)]
    fn of_outcome<T: Element + Plain>(
        outcome: Outcome<T>,
        pattern: Option<&Structure>,
        is_clean: bool,
    ) -> Result<HostMatrixOf<Self::C<T>>, SimulatedError>;
}

/// The same matrix on the host.
pub(crate) type HostMatrixOf<M> = <M as DeviceMatrix>::Host;

/// C = A B with a sparse A.
#[derive(Clone, Copy, Debug)]
pub enum Dsd {}

/// C = A B with a sparse B.
#[derive(Clone, Copy, Debug)]
pub enum Dds {}

/// The stored blocks of C = A B, or of C^T, with both factors dense.
#[derive(Clone, Copy, Debug)]
pub enum Sdd {}

/// C = A B with A and B sparse.
#[derive(Clone, Copy, Debug)]
pub enum Dss {}

/// The stored blocks of C = A B with A and B sparse.
#[derive(Clone, Copy, Debug)]
pub enum Sss {}

macro_rules! dense_results {
    ($($op:ident: $a:ident, $b:ident, $sparse:ident, $sample:expr;)*) => {$(
        impl Operation for $op {
            const OP: Op = Op::$op;
            type A<T: Element + Plain> = $a<T>;
            type B<T: Element + Plain> = $b<T>;
            type C<T: Element + Plain> = DeviceDense<T>;
            type Sparse<A: Element + Plain, B: Element + Plain, C: Element + Plain> = $sparse;

            fn result<T: Element + Plain>(
                (device, _): (&Device, StreamRef<'_>),
                spec: &KernelSpec,
                (rows, cols): (usize, usize),
                _: Option<&Structure>,
                inputs: &Inputs,
            ) -> Result<DeviceDense<T>, KernelError> {
                Ok(match initial::<T>(inputs) {
                    Some(c) => DeviceDense::upload(device, &c)?,
                    None => DeviceDense::zeros(device, rows, cols, spec.c_layout)?,
                })
            }

            fn sample<A: Element + Plain, B: Element + Plain>(
                device: &Device,
                spec: &KernelSpec,
                a: &$a<A>,
                b: &$b<B>,
                _: Option<&Structure>,
            ) -> Result<Sample, KernelError> {
                $sample(device, spec, a, b)
            }

            fn compare<C: Element + Plain>(c: &DeviceDense<C>, sample: &Sample) -> Result<Comparison, KernelError> {
                sample.compare(&c.download()?)
            }

            #[cfg(feature = "simulator")]
            #[allow(private_interfaces)]
            fn of_outcome<T: Element + Plain>(
                outcome: Outcome<T>,
                _: Option<&Structure>,
                _: bool,
            ) -> Result<Dense<T>, SimulatedError> {
                Ok(Values::of(outcome)?)
            }
        }
    )*};
}

dense_results! {
    Dsd: DeviceBsr, DeviceDense, A, |device, spec, a: &DeviceBsr<A>, b: &DeviceDense<B>| {
        Sample::of_rows(spec, &a.download()?, &b.download_from(device)?)
    };
    Dds: DeviceDense, DeviceBsr, B, |device, spec, a: &DeviceDense<A>, b: &DeviceBsr<B>| {
        Sample::of_rows(spec, &b.download()?, &a.download_from(device)?)
    };
    Dss: DeviceBsr, DeviceBsr, A, |device, spec, a: &DeviceBsr<A>, b: &DeviceBsr<B>| {
        Sample::of_rows(spec, &a.download()?, &in_blocks(device, b)?)
    };
}

macro_rules! sparse_results {
    ($($op:ident: $factor:ident, $dense:ident;)*) => {$(
        impl Operation for $op {
            const OP: Op = Op::$op;
            type A<T: Element + Plain> = $factor<T>;
            type B<T: Element + Plain> = $factor<T>;
            type C<T: Element + Plain> = DeviceBsr<T>;
            type Sparse<A: Element + Plain, B: Element + Plain, C: Element + Plain> = C;

            fn result<T: Element + Plain>(
                (device, stream): (&Device, StreamRef<'_>),
                _: &KernelSpec,
                _: (usize, usize),
                pattern: Option<&Structure>,
                inputs: &Inputs,
            ) -> Result<DeviceBsr<T>, KernelError> {
                let pattern = pattern.ok_or(KernelError::Factors { expected: Self::OP })?;
                let mut c = DeviceBsr::zeros(device, pattern)?;
                if let Some(values) = held::<T>(inputs) {
                    // A parameter of another shape is refused by the launch.
                    if values.len() == pattern.stored() {
                        c.values_mut().upload_on(&values, stream)?;
                    }
                }
                Ok(c)
            }

            fn sample<A: Element + Plain, B: Element + Plain>(
                device: &Device,
                spec: &KernelSpec,
                a: &$factor<A>,
                b: &$factor<B>,
                pattern: Option<&Structure>,
            ) -> Result<Sample, KernelError> {
                let pattern = pattern.ok_or(KernelError::Factors { expected: Self::OP })?;
                Sample::of_blocks(spec, &$dense(device, a)?, &$dense(device, b)?, pattern)
            }

            fn compare<C: Element + Plain>(c: &DeviceBsr<C>, sample: &Sample) -> Result<Comparison, KernelError> {
                let size = c.structure().block().0 * c.structure().block().1;
                let values = c.values().to_vec()?;
                match Dense::from_vec(c.structure().nnzb(), size, Layout::RowMajor, size, values) {
                    Ok(blocks) => sample.compare(&blocks),
                    Err(_) => sample.compare(&Dense::<C>::zeros(0, 0, Layout::RowMajor)),
                }
            }

            #[cfg(feature = "simulator")]
            #[allow(private_interfaces)]
            fn of_outcome<T: Element + Plain>(
                outcome: Outcome<T>,
                pattern: Option<&Structure>,
                is_clean: bool,
            ) -> Result<crate::Bsr<T>, SimulatedError> {
                let pattern = pattern.ok_or(KernelError::Factors { expected: Self::OP })?.clone();
                // What a faulty kernel leaves beyond the edge is in the report.
                Ok(match is_clean {
                    true => crate::Bsr::from_structure(pattern, Values::of(outcome)?)?,
                    false => crate::Bsr::cleared(pattern, Values::of(outcome)?)?,
                })
            }
        }
    )*};
}

fn dense<T: Element + Plain>(device: &Device, factor: &DeviceDense<T>) -> Result<Dense<T>, GpuError> {
    factor.download_from(device)
}

fn in_blocks<T: Element + Plain>(_: &Device, factor: &DeviceBsr<T>) -> Result<Dense<T>, GpuError> {
    Ok(factor.download()?.to_dense(Layout::RowMajor))
}

sparse_results! {
    Sdd: DeviceDense, dense;
    Sss: DeviceBsr, in_blocks;
}
