//! Vectors in device memory: what an epilogue reads by rows or by columns, and its second result.

use bsr_codegen::{Dtype, Refusal};
use cudarc::driver::sys;

use super::buffer::{DeviceBuffer, DevicePtr, Plain};
use super::device::Device;
use super::error::{GpuError, check};
use super::foreign::misplaced;
use super::stream::StreamRef;
use crate::Element;

/// A vector in device memory, owned or foreign. Its base is a multiple of 16 bytes.
#[derive(Debug)]
pub struct DeviceVector<T: Plain> {
    memory: VectorMemory<T>,
}

#[derive(Debug)]
enum VectorMemory<T: Plain> {
    Owned(DeviceBuffer<T>),
    Foreign(DevicePtr, usize),
}

impl<T: Element + Plain> DeviceVector<T> {
    /// Copies values to the device; done when it returns.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn upload(device: &Device, host: &[T]) -> Result<Self, GpuError> {
        Ok(Self { memory: VectorMemory::Owned(DeviceBuffer::from_slice(device, host)?) })
    }

    /// `len` zeros.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::TooLarge`].
    pub fn zeros(device: &Device, len: usize) -> Result<Self, GpuError> {
        Ok(Self { memory: VectorMemory::Owned(DeviceBuffer::zeroed(device, len)?) })
    }

    /// Views foreign device memory as a vector. Nothing is copied, and nothing freed when dropped.
    ///
    /// # Errors
    /// If the address is null or no multiple of 16 bytes.
    ///
    /// # Safety
    /// For as long as the value is used in launches, `ptr` must be device memory, on the device of those launches, of
    /// so many elements.
    pub unsafe fn from_raw(ptr: DevicePtr, len: usize) -> Result<Self, Refusal> {
        if len > 0 && (ptr == 0 || !ptr.is_multiple_of(16)) {
            return Err(misplaced("a vector is", ptr, 16));
        }
        Ok(Self { memory: VectorMemory::Foreign(ptr, len) })
    }

    /// Copies the vector to the host after all work on the device. Only for memory of this crate.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch; [`GpuError::ForeignMemory`].
    pub fn download(&self) -> Result<Vec<T>, GpuError> {
        self.owned()?.to_vec()
    }

    /// Copies the vector to the host after what is enqueued on `stream`, and waits for it.
    ///
    /// # Errors
    /// As [`DeviceVector::download`].
    pub fn download_on(&self, stream: StreamRef<'_>) -> Result<Vec<T>, GpuError> {
        self.owned()?.to_vec_on(stream)
    }

    /// Elements.
    pub fn len(&self) -> usize {
        match &self.memory {
            VectorMemory::Owned(buffer) => buffer.len(),
            VectorMemory::Foreign(_, len) => *len,
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address of the first element.
    pub fn ptr(&self) -> DevicePtr {
        match &self.memory {
            VectorMemory::Owned(buffer) => buffer.ptr(),
            VectorMemory::Foreign(ptr, _) => *ptr,
        }
    }

    pub(crate) fn untyped(&self) -> UntypedVector {
        UntypedVector { ptr: self.ptr(), dtype: T::DTYPE, len: self.len() }
    }

    fn owned(&self) -> Result<&DeviceBuffer<T>, GpuError> {
        match &self.memory {
            VectorMemory::Owned(buffer) => Ok(buffer),
            VectorMemory::Foreign(..) => Err(GpuError::ForeignMemory),
        }
    }
}

/// A vector in device memory whose element type is a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntypedVector<P = DevicePtr> {
    pub(crate) ptr: P,
    pub(crate) dtype: Dtype,
    pub(crate) len: usize,
}

impl UntypedVector {
    /// Enqueues setting every element.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Safety
    /// The memory must hold 32-bit elements and be alive until the stream has set them, with nothing else using it
    /// meanwhile.
    pub(crate) unsafe fn fill_on(self, device: &Device, value: f32, stream: StreamRef<'_>) -> Result<(), GpuError> {
        if self.len == 0 {
            return Ok(());
        }
        device.bind()?;
        // SAFETY: the vector has `len` elements of 32 bits, as the caller vouches.
        check("cuMemsetD32Async", unsafe { sys::cuMemsetD32Async(self.ptr, value.to_bits(), self.len, stream.raw()) })
    }

    /// First and last byte address (exclusive).
    pub(crate) fn range(self) -> (DevicePtr, DevicePtr) {
        (self.ptr, self.ptr + u64::from(self.dtype.bytes()) * self.len as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_vectors_are_taken_where_they_are_aligned() {
        // SAFETY: nothing is launched.
        let view = |ptr, len| unsafe { DeviceVector::<f32>::from_raw(ptr, len) };
        assert!(view(0x1000, 10).is_ok_and(|vector| vector.untyped().range() == (0x1000, 0x1028)));
        assert!(view(0, 0).is_ok());
        for ptr in [0, 0x1004] {
            let error = view(ptr, 3).map(|_| ()).expect_err("not where a kernel can read it");
            assert!(error.to_string().contains(&format!("{ptr:#x}")), "{error}");
        }
    }
}
