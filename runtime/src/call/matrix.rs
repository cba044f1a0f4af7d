//! The matrices of a product, in device memory and on the host, by what they have in common.

use bsr_codegen::{Dtype, Layout};

use crate::gpu::{Device, DeviceBsr, DeviceDense, DevicePtr, Fingerprint, GpuError, Plain, UntypedBsr};
use crate::operation::Matrix;
use crate::operation::check::Operand;
use crate::{Bsr, Dense, Element, Structure};

/// A matrix of a product in device memory: a [`DeviceBsr`] or a [`DeviceDense`].
pub trait DeviceMatrix: Sized + sealed::OnDevice {
    /// The same on the host.
    type Host: HostMatrix;

    /// Copies it to the device.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    fn upload(device: &Device, host: &Self::Host) -> Result<Self, GpuError>;

    /// The same of a matrix whose blocks a kernel has in a layout; of a dense one the layout is its own.
    #[doc(hidden)]
    fn upload_in(device: &Device, host: &Self::Host, _blocks: Layout) -> Result<Self, GpuError> {
        Self::upload(device, host)
    }

    /// Copies it to the host, after all work on the device.
    ///
    /// # Errors
    /// As [`DeviceBsr::download`] and [`DeviceDense::download`].
    fn download(&self) -> Result<Self::Host, GpuError>;

    /// Rows and columns.
    fn shape(&self) -> (usize, usize);

    /// Where the stored blocks are, and what tells the pattern from others; none of a dense matrix.
    fn pattern(&self) -> Option<(&Structure, Fingerprint)>;

    /// Sets every byte of its elements, after all work on the device.
    ///
    /// # Errors
    /// [`GpuError::ForeignMemory`].
    fn fill_bytes(&mut self, byte: u8) -> Result<(), GpuError>;
}

/// A matrix of a product on the host: a [`Bsr`] or a [`Dense`].
pub trait HostMatrix: sealed::OnHost {}

impl<T: Element + Plain> DeviceMatrix for DeviceBsr<T> {
    type Host = Bsr<T>;

    fn upload(device: &Device, host: &Bsr<T>) -> Result<Self, GpuError> {
        Self::upload(device, host)
    }

    fn upload_in(device: &Device, host: &Bsr<T>, blocks: Layout) -> Result<Self, GpuError> {
        Self::upload_in(device, host, blocks)
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

    fn fill_bytes(&mut self, byte: u8) -> Result<(), GpuError> {
        self.values_mut().fill_bytes(byte)
    }
}

impl<T: Element + Plain> DeviceMatrix for DeviceDense<T> {
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

    fn fill_bytes(&mut self, byte: u8) -> Result<(), GpuError> {
        self.fill_bytes(byte)
    }
}

impl<T: Element> HostMatrix for Bsr<T> {}
impl<T: Element> HostMatrix for Dense<T> {}

/// A matrix in device memory whose kind and element type are values.
pub(crate) type UntypedMatrix<'a> = Matrix<UntypedBsr<'a>, DevicePtr>;

/// A matrix on the host whose kind and element type are values.
#[derive(Clone, Copy)]
pub(crate) enum HostView<'h> {
    Sparse(HostSparse<'h>),
    Dense(HostDense<'h>),
}

/// A block-sparse matrix on the host.
#[derive(Clone, Copy)]
pub(crate) struct HostSparse<'h> {
    pub(crate) dtype: Dtype,
    pub(crate) structure: &'h Structure,
    pub(crate) memory: &'h dyn sealed::OnHost,
}

/// A dense matrix on the host.
#[derive(Clone, Copy)]
pub(crate) struct HostDense<'h> {
    pub(crate) operand: Operand,
    pub(crate) memory: &'h dyn sealed::OnHost,
}

pub(crate) mod sealed {
    use std::borrow::Cow;

    use bsr_codegen::Layout;

    use super::{HostView, UntypedMatrix};
    use crate::call::matrix::{HostDense, HostSparse};
    use crate::gpu::{DeviceBsr, DeviceDense, Plain};
    use crate::operation::check::Operand;
    use crate::{Bsr, Dense, Element};

    /// What a launch reads of a matrix in device memory.
    pub trait OnDevice {
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn untyped(&self) -> UntypedMatrix<'_>;
    }

    /// What the simulator reads of a matrix on the host.
    pub trait OnHost {
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn view(&self) -> HostView<'_>;

        /// Its elements as they lie in a device's memory, those of blocks in a layout, and from one line to the next so many; 0
        /// of blocks.
        #[doc(hidden)]
        fn placed(&self, blocks: Layout) -> (usize, Vec<u8>);
    }

    #[allow(private_interfaces)]
    impl<T: Element + Plain> OnDevice for DeviceBsr<T> {
        fn untyped(&self) -> UntypedMatrix<'_> {
            UntypedMatrix::Sparse(self.untyped())
        }
    }

    #[allow(private_interfaces)]
    impl<T: Element + Plain> OnDevice for DeviceDense<T> {
        fn untyped(&self) -> UntypedMatrix<'_> {
            UntypedMatrix::Dense(self.untyped())
        }
    }

    #[allow(private_interfaces)]
    impl<T: Element> OnHost for Bsr<T> {
        fn view(&self) -> HostView<'_> {
            HostView::Sparse(HostSparse { dtype: T::DTYPE, structure: self.structure(), memory: self })
        }

        fn placed(&self, blocks: Layout) -> (usize, Vec<u8>) {
            (0, T::to_bytes(&self.values_in(blocks)))
        }
    }

    #[allow(private_interfaces)]
    impl<T: Element> OnHost for Dense<T> {
        fn view(&self) -> HostView<'_> {
            HostView::Dense(HostDense { operand: Operand::from(self), memory: self })
        }

        fn placed(&self, _: Layout) -> (usize, Vec<u8>) {
            // Lines start on 16-byte boundaries, as tensor copies want them.
            let padded = match (self.ld() * size_of::<T>()).is_multiple_of(16) {
                true => Cow::Borrowed(self),
                false => Cow::Owned(self.to_layout(self.layout())),
            };
            (padded.ld(), T::to_bytes(padded.data()))
        }
    }
}
