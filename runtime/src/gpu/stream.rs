//! Streams: the order in which a GPU does things.

use std::marker::PhantomData;

use cudarc::driver::result;
use cudarc::driver::sys::{CUgraph, CUgraphNode, CUresult, CUstream, CUstreamCaptureStatus};

use super::device::Device;
use super::error::{GpuError, check, driver_error, named};
use super::event::Event;
use super::symbol::symbol;

/// A stream of its own, not ordered with the legacy default stream.
#[derive(Debug)]
pub struct Stream {
    raw: CUstream,
    device: Device,
}

// SAFETY: a CUstream may be used from any thread that has its context current; every method binds it.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver serializes concurrent calls on one stream.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        device.bind()?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(named("cuStreamCreate"))?;
        Ok(Self { raw, device: device.clone() })
    }

    /// The device the stream belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What launches and copies take.
    pub fn handle(&self) -> StreamRef<'_> {
        StreamRef { raw: self.raw, alive: PhantomData }
    }

    /// Waits until everything enqueued so far is done.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch, if one failed.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.device.bind()?;
        // SAFETY: the stream is alive as long as `self`.
        unsafe { result::stream::synchronize(self.raw) }.map_err(named("cuStreamSynchronize"))
    }

    /// What is enqueued after this waits for `event` to be reached; the host does not wait.
    pub fn wait(&self, event: &Event) -> Result<(), GpuError> {
        self.device.bind()?;
        let flags = cudarc::driver::sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: stream and event are alive, and belong to the context that is bound.
        unsafe { result::stream::wait_event(self.raw, event.raw(), flags) }.map_err(named("cuStreamWaitEvent"))
    }

    /// Whether the stream is being captured into a graph.
    pub fn is_capturing(&self) -> Result<bool, GpuError> {
        self.device.bind()?;
        // SAFETY: the stream is alive as long as `self`.
        let status = unsafe { result::stream::is_capturing(self.raw) }.map_err(named("cuStreamIsCapturing"))?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: created in `new`, destroyed once; enqueued work still runs to its end.
            let _ = unsafe { result::stream::destroy(self.raw) };
        }
    }
}

/// A borrowed stream: a [`Stream`], or a raw one of PyTorch, cudarc or the CUDA runtime.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef<'s> {
    raw: CUstream,
    alive: PhantomData<&'s ()>,
}

impl StreamRef<'_> {
    /// Takes a caller's own stream. Null is the legacy default stream.
    ///
    /// # Safety
    /// For as long as the value is used, `raw` must be a live stream of the context of the device whose
    /// buffers and functions it is used with.
    pub unsafe fn from_raw(raw: CUstream) -> Self {
        Self { raw, alive: PhantomData }
    }

    /// The driver's handle.
    pub fn raw(self) -> CUstream {
        self.raw
    }
}

impl StreamRef<'_> {
    /// The number of the capture that records the stream, which no other capture of the program has; none where what is
    /// enqueued runs.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    pub(crate) fn capture_id(self) -> Result<Option<u64>, GpuError> {
        type CaptureInfo = unsafe extern "C" fn(
            CUstream,
            *mut CUstreamCaptureStatus,
            *mut u64,
            *mut CUgraph,
            *mut *const CUgraphNode,
            *mut usize,
        ) -> CUresult;
        // The legacy default stream is never captured, and must not be asked while another one is.
        if self.raw.is_null() {
            return Ok(None);
        }
        // SAFETY: the driver is initialized (this stream exists) and the signature is that of the CUDA 12.0 headers.
        let Some(info) = (unsafe { symbol::<CaptureInfo>(c"cuStreamGetCaptureInfo", 12_000) }) else {
            return Err(driver_error("cuStreamGetCaptureInfo", CUresult::CUDA_ERROR_NOT_FOUND));
        };
        let (mut status, mut id) = (CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
        // SAFETY: places for a status and a number; the rest is not asked for. The stream is alive.
        check("cuStreamGetCaptureInfo", unsafe {
            info(self.raw, &mut status, &mut id, std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut())
        })?;
        Ok((status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE).then_some(id))
    }
}

impl<'s> From<&'s Stream> for StreamRef<'s> {
    fn from(stream: &'s Stream) -> Self {
        stream.handle()
    }
}
