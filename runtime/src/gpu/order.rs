//! An order of rows in device memory.

use super::buffer::{DeviceBuffer, DevicePtr};
use super::device::Device;
use super::error::GpuError;
use crate::Permutation;

/// An order of rows on the device: where a kernel with `permute = on` writes each row of C. It was a
/// [`Permutation`] before it was copied, so that no row is written twice and none outside C.
#[derive(Debug)]
pub struct DeviceOrder {
    rows: DeviceBuffer<u32>,
}

/// Where an order lies, and of how many rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntypedOrder<P = DevicePtr> {
    pub(crate) ptr: P,
    pub(crate) len: usize,
}

impl DeviceOrder {
    /// Copies an order to the device; done when it returns.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn upload(device: &Device, order: &Permutation) -> Result<Self, GpuError> {
        Ok(Self { rows: DeviceBuffer::from_slice(device, order.as_slice())? })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn untyped(&self) -> UntypedOrder {
        UntypedOrder { ptr: self.rows.ptr(), len: self.len() }
    }
}

impl UntypedOrder {
    /// First byte and the one after the last.
    pub(crate) fn range(self) -> (u64, u64) {
        (self.ptr, self.ptr + (self.len * size_of::<u32>()) as u64)
    }
}
