//! Attention on a GPU: tensors by address, on the stream of the caller.

use std::sync::Arc;

use bsr::gpu::{Device, DeviceBuffer, Plain, StreamRef};
use bsr::{Dtype, Element, bf16, f16};
use bsr_codegen::TensorStrides;
use bsr_runtime::attention::{DevicePattern, DeviceTensor, Inputs, Launcher, Shape};
use pyo3::prelude::*;

use crate::attention::AttentionMask;
use crate::errors::refused;

/// Sizes and strides of `[batch, heads, rows, columns]`, in elements; those of a row are contiguous.
type Layout = ([usize; 4], [u64; 3]);

/// A kernel of attention on a GPU.
#[pyclass(frozen, module = "bsr_gemm._native")]
pub(crate) struct LoadedAttention {
    pub(super) launcher: Arc<Launcher>,
    pub(super) device: Device,
}

#[pymethods]
impl LoadedAttention {
    /// The kernel's spec.
    #[getter]
    fn spec(&self) -> String {
        self.launcher.plan().spec().to_string()
    }

    /// Lists the work of a mask for Q of the first and K and V of the second sizes.
    fn work(&self, py: Python<'_>, mask: &AttentionMask, q: [usize; 4], k: [usize; 4]) -> PyResult<AttentionWork> {
        let [batch, heads, queries, columns] = q;
        let shape = Shape { batch, heads, key_heads: k[1], queries, keys: k[2], columns };
        let pattern = py.detach(|| self.launcher.pattern(&mask.mask, shape)).map_err(refused)?;
        Ok(AttentionWork { pattern: Arc::new(pattern) })
    }
}

/// The work of a mask on a GPU, for one kernel and tensors of one shape.
#[pyclass(frozen, module = "bsr_gemm._native")]
pub(crate) struct AttentionWork {
    pattern: Arc<DevicePattern>,
}

/// An attention that only lacks its addresses.
#[pyclass(frozen, module = "bsr_gemm._native")]
pub(crate) struct ReadyAttention {
    launcher: Arc<Launcher>,
    device: Device,
    pattern: Arc<DevicePattern>,
    tensors: [Layout; 4],
    scale: f32,
    numbers: Vec<f32>,
}

#[pymethods]
impl ReadyAttention {
    /// An attention of `kernel` on listed work; `tensors` are the layouts of Q, K, V and O, and `numbers` what the score's
    /// parameters are.
    #[new]
    fn new(
        kernel: &LoadedAttention,
        work: &AttentionWork,
        tensors: [Layout; 4],
        scale: f32,
        numbers: Vec<f32>,
    ) -> Self {
        let (launcher, device) = (Arc::clone(&kernel.launcher), kernel.device.clone());
        Self { launcher, device, pattern: Arc::clone(&work.pattern), tensors, scale, numbers }
    }

    /// Enqueues the attention on a stream: the addresses of Q, K, V, O and of the logarithms of the sums (0: they are not
    /// wanted), then the stream.
    ///
    /// Nothing synchronizes and nothing is allocated. The memory must be on the kernel's GPU, as large as it was said to be, and
    /// alive until the stream is done with it.
    fn launch(&self, q: u64, k: u64, v: u64, o: u64, sums: u64, stream: usize) -> PyResult<()> {
        match self.launcher.plan().spec().a {
            Dtype::F16 => self.typed::<f16>([q, k, v, o], sums, stream),
            Dtype::BF16 => self.typed::<bf16>([q, k, v, o], sums, stream),
            other => Err(refused(format!("an attention of {other} is not launched from Python"))),
        }
    }
}

impl ReadyAttention {
    fn typed<T: Element + Plain>(&self, addresses: [u64; 4], sums: u64, stream: usize) -> PyResult<()> {
        let view = |at: usize| {
            let (sizes, [batch, head, row]) = self.tensors[at];
            // SAFETY: the caller of the launch vouches for the memory.
            unsafe {
                DeviceTensor::<T>::from_raw(&self.device, addresses[at], sizes, TensorStrides { row, head, batch })
            }
        };
        let ([q, k, v], mut o) = ([view(0), view(1), view(2)], view(3));
        let [batch, heads, queries, _] = self.tensors[0].0;
        // SAFETY: as above.
        let mut sums =
            (sums != 0).then(|| unsafe { DeviceBuffer::<f32>::foreign(&self.device, sums, batch * heads * queries) });
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        let stream = unsafe { StreamRef::from_raw(stream as *mut _) };
        let inputs = Inputs::from((&q, &k, &v, self.scale)).scalars(&self.numbers);
        self.launcher.launch(stream, inputs, &self.pattern, &mut o, sums.as_mut()).map_err(refused)
    }
}
