//! CUDA graphs: a stream's work, recorded once and replayed.

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUgraph, CUgraphExec, CUstreamCaptureMode};

use super::device::Device;
use super::error::{GpuError, check, named};
use super::stream::{Stream, StreamRef};

/// Work captured from a stream, ready to be replayed any number of times.
///
/// The graph holds the addresses that the captured launches used: whatever they point to must be alive
/// whenever it is launched.
#[derive(Debug)]
pub struct Graph {
    exec: CUgraphExec,
    device: Device,
}

// SAFETY: a CUgraphExec may be used from any thread, one at a time; launching takes `&mut self`.
unsafe impl Send for Graph {}

impl Graph {
    /// Runs `record` with the stream in capture and makes a graph of what it enqueued. Nothing runs on the
    /// GPU meanwhile. `record` may return the error of whatever it calls: launches of kernels give
    /// [`KernelError`](crate::KernelError), attentions [`AttentionError`](crate::attention::AttentionError).
    ///
    /// ```ignore
    /// let mut graph = Graph::capture(&stream, |stream| spmm.launch(stream, (&a, &b), &mut c))?;
    /// ```
    ///
    /// Only the calling thread is held to the rules of capture (no allocation, no synchronization); but no
    /// thread may synchronize the whole context until this returns.
    ///
    /// # Errors
    /// What `record` returned, or [`GpuError::Driver`] as that type if capturing failed, for instance
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` after a call that capture forbids.
    pub fn capture<E: From<GpuError>>(
        stream: &Stream,
        record: impl FnOnce(StreamRef<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let device = stream.device();
        device.bind()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive as long as the borrow.
        unsafe { result::stream::begin_capture(stream.handle().raw(), mode) }.map_err(named("cuStreamBeginCapture"))?;
        let mut capture = Capture { stream, open: true };
        record(stream.handle())?;
        let graph = capture.end()?;
        Ok(Self { exec: instantiate(graph)?, device: device.clone() })
    }

    /// Enqueues the captured work.
    ///
    /// # Safety
    /// All memory that the captured work touches must be alive until it is done, and nothing else may use
    /// it in a conflicting way meanwhile.
    pub unsafe fn launch(&mut self, stream: StreamRef<'_>) -> Result<(), GpuError> {
        self.device.bind()?;
        // SAFETY: the instance is alive as long as `self`; the caller vouches for the memory.
        unsafe { result::graph::launch(self.exec, stream.raw()) }.map_err(named("cuGraphLaunch"))
    }
}

/// An executable instance of a graph, which is destroyed.
fn instantiate(graph: CUgraph) -> Result<CUgraphExec, GpuError> {
    let mut exec = std::ptr::null_mut();
    // SAFETY: `graph` is a live graph, `exec` a place for one handle.
    let status = unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0) };
    // SAFETY: the graph was returned by `Capture::end` and is used no more; an instance does not need it.
    let _ = unsafe { result::graph::destroy(graph) };
    check("cuGraphInstantiate", status).map(|()| exec)
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: instantiated in `capture`, destroyed once.
            let _ = unsafe { result::graph::exec_destroy(self.exec) };
        }
    }
}

/// A capture under way: ends it also when `record` fails or panics, so that the stream stays usable.
struct Capture<'s> {
    stream: &'s Stream,
    open: bool,
}

impl Capture<'_> {
    fn end(&mut self) -> Result<CUgraph, GpuError> {
        self.open = false;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is alive and in capture, begun by `Graph::capture` on this thread.
        let status = unsafe { sys::cuStreamEndCapture(self.stream.handle().raw(), &mut graph) };
        check("cuStreamEndCapture", status)?;
        Ok(graph)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.open
            && let Ok(graph) = self.end()
        {
            // SAFETY: just returned by the driver, used nowhere else.
            let _ = unsafe { result::graph::destroy(graph) };
        }
    }
}
