//! Emptying the L2 cache between timed launches.

use std::ffi::c_void;

use super::buffer::DeviceBuffer;
use super::device::Device;
use super::error::GpuError;
use super::launch::{LaunchDims, launch_params};
use super::module::{Function, Module};
use super::stream::StreamRef;

/// Two buffers, of which one is overwritten and the other one is then read, so that each timed launch starts from an L2
/// cache that is cold and clean.
///
/// Overwriting pushes everything else out of the cache. It leaves the cache full of lines that must still be written
/// to memory, which the kernel that comes next would pay for: up to 50 MB, a quarter of the time of short products.
/// Reading the other buffer pushes these lines out, too.
#[derive(Debug)]
pub struct L2Flush {
    written: DeviceBuffer<u8>,
    /// Zeros.
    read: DeviceBuffer<u8>,
    reader: Function,
    ctas: u32,
}

impl L2Flush {
    /// At least this many bytes are written, and as many read, whatever the device says of its cache.
    const LEAST_BYTES: u64 = 256 << 20;
    /// The most: more would take longer than it is worth, and their vectors still have 32-bit numbers.
    const MOST_BYTES: u64 = 4 << 30;
    /// Bytes that a thread reads at once.
    const VECTOR: u64 = 16;
    const THREADS: u32 = 512;
    /// CTAs for each multiprocessor.
    const CTAS: u32 = 4;

    /// Allocates two buffers of twice the size of the L2 cache each, and of at least 256 MiB.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]; [`GpuError::Jit`] if the driver refuses the kernel that reads.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        let bytes = (2 * device.info().l2_bytes).clamp(Self::LEAST_BYTES, Self::MOST_BYTES) as usize;
        let reader = Module::load(device, include_str!("l2_read.ptx"))?.function("read_all")?;
        Ok(Self {
            written: DeviceBuffer::uninit(device, bytes)?,
            read: DeviceBuffer::zeroed(device, bytes)?,
            reader,
            ctas: Self::CTAS * device.sm_count(),
        })
    }

    /// Enqueues the overwriting and the reading: some 120 us of an H200, in which the host gets ahead of the GPU.
    ///
    /// # Errors
    /// What a launch answers.
    pub fn flush(&mut self, stream: StreamRef<'_>) -> Result<(), GpuError> {
        self.written.fill_bytes_on(0, stream)?;
        let (buffer, vectors) = (self.read.ptr(), (self.read.len() as u64 / Self::VECTOR) as u32);
        let mut params: [*mut c_void; 2] =
            [std::ptr::from_ref(&buffer).cast_mut().cast(), std::ptr::from_ref(&vectors).cast_mut().cast()];
        let dims =
            LaunchDims { grid: [self.ctas, 1], block: Self::THREADS, cluster: 1, shared_bytes: 0, is_dependent: false };
        // SAFETY: the kernel takes an address and a 32-bit number, which live until the launch has read them, and reads as
        // many vectors as the buffer has.
        unsafe { launch_params(&self.reader, dims, &mut params, stream) }
    }
}
