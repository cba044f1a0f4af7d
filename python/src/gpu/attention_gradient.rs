//! Gradients of attention on a GPU: tensors by address, on the stream of the caller.

use std::sync::Arc;

use bsr::gpu::{Device, DeviceBuffer, Plain, StreamRef};
use bsr::{Dtype, Element, bf16, f16};
use bsr_runtime::attention::{GradientInputs, GradientLauncher, GradientOutputs, GradientPattern};
use pyo3::prelude::*;

use super::attention::{Layout, placed, shape};
use crate::attention::AttentionMask;
use crate::errors::refused;

/// The kernels of a gradient on a GPU.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct LoadedGradient {
    pub(super) launcher: Arc<GradientLauncher>,
    pub(super) device: Device,
}

#[pymethods]
impl LoadedGradient {
    /// Lists the work of a mask, by rows and by columns of blocks, for Q and V of these sizes.
    fn work(&self, py: Python<'_>, mask: &AttentionMask, q: [usize; 4], v: [usize; 4]) -> PyResult<GradientWork> {
        let pattern = py.detach(|| self.launcher.pattern(&mask.mask, shape(q, v))).map_err(refused)?;
        Ok(GradientWork { pattern: Arc::new(pattern) })
    }
}

/// The work of a mask on a GPU, for both kernels of a gradient and tensors of one shape.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct GradientWork {
    pattern: Arc<GradientPattern>,
}

/// A gradient that only lacks its addresses.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct ReadyGradient {
    launcher: Arc<GradientLauncher>,
    device: Device,
    pattern: Arc<GradientPattern>,
    tensors: [Layout; 8],
    scale: f32,
    numbers: Vec<f32>,
}

#[pymethods]
impl ReadyGradient {
    /// A gradient on listed work; `tensors` are the layouts of Q, K, V, O, dO, dQ, dK and dV, `numbers` what the score's
    /// numbers are.
    #[new]
    fn new(kernels: &LoadedGradient, work: &GradientWork, tensors: [Layout; 8], scale: f32, numbers: Vec<f32>) -> Self {
        let (launcher, device) = (Arc::clone(&kernels.launcher), kernels.device.clone());
        Self { launcher, device, pattern: Arc::clone(&work.pattern), tensors, scale, numbers }
    }

    /// Enqueues both kernels on a stream: the addresses of the tensors in the order of their layouts, of LSE, of its gradient (0:
    /// nothing depends on LSE) and of as many f32 for the kernels' own use.
    ///
    /// Nothing synchronizes and nothing is allocated. The memory must be on the kernels' GPU, as large as it was said to be, and
    /// alive until the stream is done with it.
    fn launch(&self, tensors: [u64; 8], lse: u64, lse_gradient: u64, delta: u64, stream: usize) -> PyResult<()> {
        let of_queries = [lse, lse_gradient, delta];
        match self.launcher.plans()[0].spec().a {
            Dtype::F16 => self.typed::<f16>(tensors, of_queries, stream),
            Dtype::BF16 => self.typed::<bf16>(tensors, of_queries, stream),
            other => Err(refused(format!("a gradient of {other} is not launched from Python"))),
        }
    }
}

impl ReadyGradient {
    fn typed<T: Element + Plain>(&self, tensors: [u64; 8], of_queries: [u64; 3], stream: usize) -> PyResult<()> {
        let [batch, heads, queries, _] = self.tensors[0].0;
        // SAFETY: the caller of the launch vouches for the memory.
        let (placed, of_queries) = unsafe {
            let rows = batch * heads * queries;
            let values = of_queries.map(|at| (at != 0).then(|| DeviceBuffer::<f32>::foreign(&self.device, at, rows)));
            (placed::<T, 8>(&self.device, &self.tensors, tensors), values)
        };
        let [q, k, v, o, output_gradient, mut dq, mut dk, mut dv] = placed;
        let [Some(lse), lse_gradient, Some(mut delta)] = of_queries else {
            return Err(refused("a gradient reads LSE and needs a place for delta"));
        };
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        let stream = unsafe { StreamRef::from_raw(stream as *mut _) };
        let inputs = GradientInputs {
            tensors: [&q, &k, &v],
            output: &o,
            lse: &lse,
            output_gradient: &output_gradient,
            lse_gradient: lse_gradient.as_ref(),
            scale: self.scale,
            scalars: &self.numbers,
        };
        let mut outputs = GradientOutputs { dq: &mut dq, dk: &mut dk, dv: &mut dv, delta: &mut delta };
        self.launcher.launch(stream, &inputs, &self.pattern, &mut outputs).map_err(refused)
    }
}
