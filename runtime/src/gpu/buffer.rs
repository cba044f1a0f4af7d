//! Device memory that frees itself.

use std::ffi::c_void;
use std::marker::PhantomData;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult, CUstream};

use super::device::Device;
use super::error::{GpuError, check, driver_error, named};
use super::stream::StreamRef;

/// An address in device memory.
pub type DevicePtr = u64;

/// Plain data: any bytes are a value, and copying the bytes copies the value.
///
/// # Safety
/// The type must have no padding, no invalid bit pattern, no pointer and no destructor.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: a number without padding; every bit pattern is a value.
        unsafe impl Plain for $type {}
    )*};
}
plain!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, half::f16, half::bf16, crate::e4m3, crate::e5m2);

// SAFETY: an array of plain values has no padding between them.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// `len` elements of device memory, aligned to 256 bytes; freed when dropped.
///
/// Freeing waits for the device, so drop buffers outside of what is timed.
#[derive(Debug)]
pub struct DeviceBuffer<T: Plain> {
    ptr: DevicePtr,
    len: usize,
    device: Device,
    /// Whether the memory was allocated elsewhere and is not freed here.
    foreign: bool,
    holds: PhantomData<T>,
}

impl<T: Plain> DeviceBuffer<T> {
    /// Allocates without writing: the content is whatever lay there. A buffer of 0 elements has a valid
    /// address too.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::TooLarge`].
    pub fn uninit(device: &Device, len: usize) -> Result<Self, GpuError> {
        let size = size_of::<T>();
        let bytes = len.checked_mul(size).filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes = bytes.ok_or(GpuError::TooLarge { len, size })?.max(256);
        device.bind()?;
        let mut ptr = 0;
        // SAFETY: `ptr` is a place for one address; the size is not 0.
        match unsafe { sys::cuMemAlloc_v2(&mut ptr, bytes) } {
            CUresult::CUDA_SUCCESS => Ok(Self { ptr, len, device: device.clone(), foreign: false, holds: PhantomData }),
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let (free, total) = device.memory().unwrap_or_default();
                Err(GpuError::OutOfMemory { asked: bytes, free, total })
            }
            status => Err(driver_error("cuMemAlloc", status)),
        }
    }

    /// Views `len` elements that were allocated elsewhere; they are not freed when the value is dropped.
    ///
    /// # Safety
    /// They are device memory of this device for as long as the value lives.
    pub unsafe fn foreign(device: &Device, ptr: DevicePtr, len: usize) -> Self {
        Self { ptr, len, device: device.clone(), foreign: true, holds: PhantomData }
    }

    /// Is this memory that was allocated elsewhere?
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Allocates and fills with zero bytes; done when it returns.
    ///
    /// # Errors
    /// As [`DeviceBuffer::uninit`].
    pub fn zeroed(device: &Device, len: usize) -> Result<Self, GpuError> {
        let mut buffer = Self::uninit(device, len)?;
        buffer.fill_in(0, device.copies())?;
        device.finish_copies()?;
        Ok(buffer)
    }

    /// Allocates and copies from the host; done when it returns.
    ///
    /// # Errors
    /// As [`DeviceBuffer::uninit`].
    pub fn from_slice(device: &Device, host: &[T]) -> Result<Self, GpuError> {
        let mut buffer = Self::uninit(device, host.len())?;
        buffer.upload_in(host, device.copies())?;
        Ok(buffer)
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the elements.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The address. Good for as long as the buffer lives.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// The device it lies on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits for all work on the device, then copies to the host.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch, if one failed.
    pub fn to_vec(&self) -> Result<Vec<T>, GpuError> {
        self.device.synchronize()?;
        self.download_in(self.device.copies())
    }

    /// Copies to the host after what is enqueued on `stream`, and waits for it.
    ///
    /// # Errors
    /// As [`DeviceBuffer::to_vec`].
    pub fn to_vec_on(&self, stream: StreamRef<'_>) -> Result<Vec<T>, GpuError> {
        self.download_in(stream.raw())
    }

    /// Waits for all work on the device, sets every byte, and waits for that: 0xFF makes floats NaN, which
    /// shows what a kernel left unwritten.
    pub fn fill_bytes(&mut self, byte: u8) -> Result<(), GpuError> {
        self.device.synchronize()?;
        self.fill_in(byte, self.device.copies())?;
        self.device.finish_copies()
    }

    /// Enqueues setting every byte.
    pub fn fill_bytes_on(&mut self, byte: u8, stream: StreamRef<'_>) -> Result<(), GpuError> {
        self.fill_in(byte, stream.raw())
    }

    /// Copies from the host after what is enqueued on `stream`, and waits for it.
    ///
    /// # Errors
    /// [`GpuError::Length`] if the lengths differ.
    pub fn upload_on(&mut self, host: &[T], stream: StreamRef<'_>) -> Result<(), GpuError> {
        self.upload_in(host, stream.raw())
    }

    fn upload_in(&mut self, host: &[T], stream: CUstream) -> Result<(), GpuError> {
        if host.len() != self.len {
            return Err(GpuError::Length { host: host.len(), device: self.len });
        }
        if host.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        let from = host.as_ptr().cast::<c_void>();
        // SAFETY: both sides hold `bytes()` bytes, and the wait below outlasts the copy.
        check("cuMemcpyHtoDAsync", unsafe { sys::cuMemcpyHtoDAsync_v2(self.ptr, from, self.bytes(), stream) })?;
        // SAFETY: the caller's stream is alive.
        unsafe { result::stream::synchronize(stream) }.map_err(named("cuStreamSynchronize"))
    }

    fn download_in(&self, stream: CUstream) -> Result<Vec<T>, GpuError> {
        let mut host = Vec::<T>::with_capacity(self.len);
        if self.len > 0 {
            self.device.bind()?;
            let to = host.as_mut_ptr().cast::<c_void>();
            // SAFETY: the vector has room for `len` elements, and the wait below outlasts the copy.
            let copied =
                check("cuMemcpyDtoHAsync", unsafe { sys::cuMemcpyDtoHAsync_v2(to, self.ptr, self.bytes(), stream) });
            // SAFETY: the caller's stream is alive.
            let waited = unsafe { result::stream::synchronize(stream) };
            copied?;
            waited.map_err(named("cuStreamSynchronize"))?;
        }
        // SAFETY: `len` elements were written, and any bytes are values of a `Plain` type.
        unsafe { host.set_len(self.len) };
        Ok(host)
    }

    fn fill_in(&mut self, byte: u8, stream: CUstream) -> Result<(), GpuError> {
        if self.len == 0 {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: the buffer holds `bytes()` bytes and is borrowed mutably.
        check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(self.ptr, byte, self.bytes(), stream) })
    }
}

impl<T: Plain> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        if !self.foreign && self.device.bind().is_ok() {
            // SAFETY: allocated in `uninit`, freed once. The driver waits for work that uses it.
            let _ = unsafe { sys::cuMemFree_v2(self.ptr) };
        }
    }
}
