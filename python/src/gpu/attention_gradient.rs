//! Gradients of attention on a GPU: tensors by address, on the stream of the caller.

use std::sync::Arc;

use bsr::gpu::{Device, DeviceBuffer, Plain, StreamRef};
use bsr::{Dtype, Element, bf16, f16};
use bsr_runtime::attention::{GradientInputs, GradientLauncher, GradientOutputs, GradientPattern, ListedWork};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::attention::{Extent, Layout, extents, placed, shape, vectors_at, views};
use crate::attention::{AttentionMask, GradientForm};
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

    /// The numbers of the score's parameters whose gradients each kernel sums.
    #[getter]
    fn score_sums(&self) -> [Vec<usize>; 2] {
        self.launcher.plans().map(|plan| plan.spec().score_sums())
    }

    /// How each kernel takes the work of Q and V of these sizes.
    fn forms(&self, q: [usize; 4], v: [usize; 4]) -> PyResult<[GradientForm; 2]> {
        let forms = self.launcher.forms(&shape(q, v)).map_err(refused)?;
        Ok(forms.map(GradientForm::from))
    }

    /// Work that lies in device memory: for each kernel its CTAs, and address and words of heads, tiles and steps. The memory must
    /// hold what the kernels take whenever they run.
    fn listed(&self, q: [usize; 4], v: [usize; 4], lists: [Lists; 2]) -> PyResult<GradientWork> {
        let lists = lists.map(|(ctas, heads, tiles, steps)| ListedWork { ctas, heads, tiles, steps });
        // SAFETY: the caller vouches for the memory.
        let pattern = unsafe { self.launcher.listed(shape(q, v), lists) }.map_err(refused)?;
        Ok(GradientWork { pattern: Arc::new(pattern) })
    }
}

/// CTAs, and where heads, tiles and steps are.
type Lists = (u32, (u64, usize), (u64, usize), (u64, usize));

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
    vectors: Vec<Extent>,
}

#[pymethods]
impl ReadyGradient {
    /// A gradient on listed work; `tensors` are the layouts of Q, K, V, O, dO, dQ, dK and dV, `numbers` what the score's
    /// numbers are, and `vectors` the element types and lengths of its vectors, and which heads have elements of their own.
    #[new]
    fn new(
        kernels: &LoadedGradient,
        work: &GradientWork,
        tensors: [Layout; 8],
        scale: f32,
        numbers: Vec<f32>,
        vectors: Vec<(String, usize, String)>,
    ) -> PyResult<Self> {
        let (launcher, device) = (Arc::clone(&kernels.launcher), kernels.device.clone());
        let pattern = Arc::clone(&work.pattern);
        Ok(Self { launcher, device, pattern, tensors, scale, numbers, vectors: extents(vectors)? })
    }

    /// Elements of the workspace, f32.
    #[getter]
    fn workspace(&self) -> usize {
        self.pattern.workspace_len()
    }

    /// Enqueues both kernels on a stream: the addresses of the tensors in the order of their layouts, of LSE, of its gradient (0:
    /// nothing depends on LSE), of the workspace and of the sums of the score's gradients (0: the kernel sums none), the stream,
    /// then the addresses of the score's vectors.
    ///
    /// Nothing synchronizes and nothing is allocated. The memory must be on the kernels' GPU, as large as it was said to be, and
    /// alive until the stream is done with it.
    #[pyo3(signature = (tensors, lse, lse_gradient, workspace, score_sums, stream, *vectors))]
    #[expect(clippy::too_many_arguments, reason = "a call of Python")]
    fn launch(
        &self,
        tensors: [u64; 8],
        lse: u64,
        lse_gradient: u64,
        workspace: u64,
        score_sums: [u64; 2],
        stream: usize,
        vectors: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let (of_queries, vectors) = (([lse, lse_gradient, workspace], score_sums), vectors.extract::<Vec<u64>>()?);
        match self.launcher.plans()[0].spec().a {
            Dtype::F16 => self.typed::<f16>(tensors, of_queries, &vectors, stream),
            Dtype::BF16 => self.typed::<bf16>(tensors, of_queries, &vectors, stream),
            other => Err(refused(format!("a gradient of {other} is not launched from Python"))),
        }
    }
}

impl ReadyGradient {
    fn typed<T: Element + Plain>(
        &self,
        tensors: [u64; 8],
        ([lse, lse_gradient, workspace], score_sums): ([u64; 3], [u64; 2]),
        vectors: &[u64],
        stream: usize,
    ) -> PyResult<()> {
        let [batch, heads, queries, _] = self.tensors[0].0;
        // SAFETY: the caller of the launch vouches for the memory.
        let (placed, of_queries, mut workspace, [mut of_dq, mut of_dkv]) = unsafe {
            let rows = batch * heads * queries;
            let values =
                [lse, lse_gradient].map(|at| (at != 0).then(|| DeviceBuffer::<f32>::foreign(&self.device, at, rows)));
            let workspace = DeviceBuffer::<f32>::foreign(&self.device, workspace, self.pattern.workspace_len());
            let [first, second] = self.pattern.score_sums_len();
            let sums = [(score_sums[0], first), (score_sums[1], second)]
                .map(|(at, len)| (at != 0).then(|| DeviceBuffer::<f32>::foreign(&self.device, at, len)));
            (placed::<T, 8>(&self.device, &self.tensors, tensors), values, workspace, sums)
        };
        let [q, k, v, o, output_gradient, mut dq, mut dk, mut dv] = placed;
        let [Some(lse), lse_gradient] = of_queries else {
            return Err(refused("a gradient reads LSE"));
        };
        // SAFETY: as above.
        let held = unsafe { vectors_at(&self.vectors, vectors)? };
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
            vectors: &views(&held, &self.vectors),
        };
        let mut outputs = GradientOutputs {
            dq: &mut dq,
            dk: &mut dk,
            dv: &mut dv,
            workspace: &mut workspace,
            score_sums: [of_dq.as_mut(), of_dkv.as_mut()],
        };
        self.launcher.launch(stream, &inputs, &self.pattern, &mut outputs).map_err(refused)
    }
}
