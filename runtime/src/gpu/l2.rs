//! Emptying the L2 cache between timed launches.

use super::buffer::DeviceBuffer;
use super::device::Device;
use super::error::GpuError;
use super::stream::StreamRef;

/// A buffer that is overwritten to push everything else out of the L2 cache, so that each timed launch
/// starts cold.
#[derive(Debug)]
pub struct L2Flush {
    buffer: DeviceBuffer<u8>,
}

impl L2Flush {
    /// At least this many bytes are written, whatever the device says of its cache.
    const LEAST_BYTES: u64 = 256 << 20;

    /// Allocates twice the size of the L2 cache, and at least 256 MiB.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        let bytes = (2 * device.info().l2_bytes).max(Self::LEAST_BYTES);
        Ok(Self { buffer: DeviceBuffer::uninit(device, bytes as usize)? })
    }

    /// Enqueues the overwriting: some 60 us of an H200, in which the host gets ahead of the GPU.
    pub fn flush(&mut self, stream: StreamRef<'_>) -> Result<(), GpuError> {
        self.buffer.fill_bytes_on(0, stream)
    }
}
