//! Allocations while a stream is being captured into a graph.

use cudarc::driver::sys::{self, CUresult, CUstreamCaptureMode};

/// Lets this thread allocate and copy on streams of its own while another stream is being captured, until it is dropped.
/// Otherwise the driver ends a capture that was begun in its strictest mode, which PyTorch's are.
#[derive(Debug)]
pub(crate) struct Relaxed {
    before: Option<CUstreamCaptureMode>,
}

impl Relaxed {
    /// From now on. A driver that refuses changes nothing.
    pub(crate) fn new() -> Self {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` is read and written before the call returns; what it changes is this thread's alone.
        let status = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
        Self { before: (status == CUresult::CUDA_SUCCESS).then_some(mode) }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mut before) = self.before {
            // SAFETY: as in `new`.
            let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut before) };
        }
    }
}
