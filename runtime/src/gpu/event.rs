//! Events: points in a stream, with the time at which the GPU reached them.

use cudarc::driver::result;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUresult};

use super::device::Device;
use super::error::{GpuError, check, named};
use super::stream::StreamRef;
use super::symbol::symbol;

/// A point in a stream that can be waited for and that carries a time.
#[derive(Debug)]
pub struct Event {
    raw: CUevent,
    device: Device,
}

// SAFETY: a CUevent may be used from any thread that has its context current; every method binds it.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that takes times.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        device.bind()?;
        let raw = result::event::create(CUevent_flags::CU_EVENT_DEFAULT).map_err(named("cuEventCreate"))?;
        Ok(Self { raw, device: device.clone() })
    }

    /// Places the event after everything enqueued on the stream so far.
    pub fn record(&self, stream: StreamRef<'_>) -> Result<(), GpuError> {
        self.device.bind()?;
        // SAFETY: the event is alive as long as `self`, the stream as long as `stream`.
        unsafe { result::event::record(self.raw, stream.raw()) }.map_err(named("cuEventRecord"))
    }

    /// Waits until the GPU has reached the event.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch, if one failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.device.bind()?;
        // SAFETY: the event is alive as long as `self`.
        unsafe { result::event::synchronize(self.raw) }.map_err(named("cuEventSynchronize"))
    }

    /// Milliseconds of GPU time from this event to `end`. Both must have been recorded and reached.
    ///
    /// # Errors
    /// [`GpuError::Driver`]: `CUDA_ERROR_INVALID_HANDLE` if one was never recorded, `CUDA_ERROR_NOT_READY`
    /// if one was not reached yet.
    pub fn elapsed_ms(&self, end: &Event) -> Result<f32, GpuError> {
        self.device.bind()?;
        type ElapsedTime = unsafe extern "C" fn(*mut f32, CUevent, CUevent) -> CUresult;
        // SAFETY: the driver is initialized (this event exists) and the signature is that of the CUDA 12.0 headers.
        let Some(call) = (unsafe { symbol::<ElapsedTime>(c"cuEventElapsedTime", 12_000) }) else {
            return Err(super::error::driver_error("cuEventElapsedTime", CUresult::CUDA_ERROR_NOT_FOUND));
        };
        let mut ms = 0.0;
        // SAFETY: both events are alive and belong to the bound context; `ms` is a place for one float.
        check("cuEventElapsedTime", unsafe { call(&mut ms, self.raw, end.raw) })?;
        Ok(ms)
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.raw
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: created in `new`, destroyed once.
            let _ = unsafe { result::event::destroy(self.raw) };
        }
    }
}
