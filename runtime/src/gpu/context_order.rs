//! Ordering a stream with all others of its context, those too that another library does not show.

use cudarc::driver::sys::{CUcontext, CUevent, CUresult};

use super::device::Device;
use super::error::GpuError;
use super::event::Event;
use super::stream::Stream;
use super::symbol::symbol;

type OfContext = unsafe extern "C" fn(CUcontext, CUevent) -> CUresult;

/// Orders a stream with everything else in its context on the GPU, without waiting on the host: for memory of a library
/// whose streams are not known. Needs a driver of CUDA 12.5 or newer.
#[derive(Debug)]
pub struct ContextOrder {
    before: Event,
    after: Event,
    record: OfContext,
    wait: OfContext,
    device: Device,
}

impl ContextOrder {
    /// None where the driver has no such functions, or does not take them for the context of this device.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn new(device: &Device) -> Result<Option<Self>, GpuError> {
        let (before, after) = (Event::new(device)?, Event::new(device)?);
        // SAFETY: the driver is initialized, and the signatures are those of the CUDA 12.5 headers.
        let (record, wait) = unsafe { (symbol(c"cuCtxRecordEvent", 12_050), symbol(c"cuCtxWaitEvent", 12_050)) };
        let (Some(record), Some(wait)) = (record, wait) else { return Ok(None) };
        let order = Self { before, after, record, wait, device: device.clone() };
        let is_taken = order.call(order.record, &order.before)? && order.call(order.wait, &order.before)?;
        Ok(is_taken.then_some(order))
    }

    /// What is enqueued on the stream from now on waits for all that was enqueued in the context before. False where the
    /// driver refuses, as it does while a stream of the context is captured.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub fn stream_after_all(&self, stream: &Stream) -> Result<bool, GpuError> {
        if !self.call(self.record, &self.before)? {
            return Ok(false);
        }
        stream.wait(&self.before)?;
        Ok(true)
    }

    /// All that is enqueued in the context from now on waits for what was enqueued on the stream before.
    ///
    /// # Errors
    /// As [`ContextOrder::stream_after_all`].
    pub fn all_after_stream(&self, stream: &Stream) -> Result<bool, GpuError> {
        self.after.record(stream.handle())?;
        self.call(self.wait, &self.after)
    }

    fn call(&self, function: OfContext, event: &Event) -> Result<bool, GpuError> {
        self.device.bind()?;
        // SAFETY: context and event are alive, and the event is of this context.
        let status = unsafe { function(self.device.context().cu_ctx(), event.raw()) };
        Ok(status == CUresult::CUDA_SUCCESS)
    }
}
