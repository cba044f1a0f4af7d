//! Attention on a GPU: tensors by address, on the stream of the caller.

use std::sync::Arc;

use bsr::gpu::{Device, DeviceBuffer, DeviceVector, Plain, StreamRef};
use bsr::{Dtype, Element, Scale, bf16, e4m3, f16};
use bsr_codegen::TensorStrides;
use bsr_runtime::attention::{
    DeviceFactors, DevicePattern, DeviceTensor, Inputs, Launcher, ScoreVector, Shape, Sharing,
};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::further::AnyVector;
use super::{DeviceMask, DevicePages};
use crate::array::Kind;
use crate::attention::{AttentionMask, shared};
use crate::errors::refused;

/// Sizes and strides of `[batch, heads, rows, columns]`, in elements; those of a row are contiguous.
pub(super) type Layout = ([usize; 4], [u64; 3]);

/// A kernel of attention on a GPU.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
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

    /// Lists the work of a mask for Q and V of these sizes; launches of it bring a workspace or not.
    #[pyo3(signature = (mask, q, v, brings_workspace=false))]
    fn work(
        &self,
        py: Python<'_>,
        mask: &AttentionMask,
        q: [usize; 4],
        v: [usize; 4],
        brings_workspace: bool,
    ) -> PyResult<AttentionWork> {
        let pattern = py.detach(|| self.launcher.pattern(&mask.mask, shape(q, v))).map_err(refused)?;
        let pattern = if brings_workspace { pattern.without_workspace() } else { pattern };
        Ok(AttentionWork { pattern: Arc::new(pattern) })
    }

    /// Allocates what listing the work of a mask on the GPU takes, for Q and V of these sizes.
    fn listed(&self, py: Python<'_>, mask: &DeviceMask, q: [usize; 4], v: [usize; 4]) -> PyResult<AttentionWork> {
        let pattern = py.detach(|| self.launcher.device_pattern(&mask.mask, shape(q, v))).map_err(refused)?;
        Ok(AttentionWork { pattern: Arc::new(pattern) })
    }

    /// Allocates what checking a page table and listing its work takes, for Q of this size and V in pages of this size.
    fn paged(&self, py: Python<'_>, pages: &DevicePages, q: [usize; 4], v: [usize; 4]) -> PyResult<AttentionWork> {
        let shape = Shape { keys: pages.pages.shape().keys(), ..shape(q, v) };
        let pattern = py.detach(|| self.launcher.paged(&pages.pages, shape)).map_err(refused)?;
        Ok(AttentionWork { pattern: Arc::new(pattern) })
    }
}

/// The shape of an attention of Q and V of these sizes.
pub(crate) fn shape([batch, heads, queries, _]: [usize; 4], v: [usize; 4]) -> Shape {
    Shape { batch, heads, key_heads: v[1], queries, keys: v[2], columns: v[3] }
}

/// The work of a mask on a GPU, for one kernel and tensors of one shape.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct AttentionWork {
    pattern: Arc<DevicePattern>,
}

#[pymethods]
impl AttentionWork {
    /// Elements of f32 of a workspace of the caller's.
    #[getter]
    fn workspace(&self) -> usize {
        self.pattern.workspace_len()
    }
}

/// An attention that only lacks its addresses.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct ReadyAttention {
    launcher: Arc<Launcher>,
    device: Device,
    pattern: Arc<DevicePattern>,
    tensors: [Layout; 4],
    scale: f32,
    numbers: Vec<f32>,
    vectors: Vec<Extent>,
    /// How many factors of Q, of K and of V, of a kernel that has them.
    factors: Option<[usize; 3]>,
}

#[pymethods]
impl ReadyAttention {
    /// An attention of `kernel` on listed work; `tensors` are the layouts of Q, K, V and O, `numbers` what the score's numbers
    /// are, and `vectors` the element types and lengths of its vectors, and which heads have elements of their own; Q, K and V have
    /// so many `factors`.
    #[new]
    #[pyo3(signature = (kernel, work, tensors, scale, numbers, vectors, factors=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        kernel: &LoadedAttention,
        work: &AttentionWork,
        tensors: [Layout; 4],
        scale: f32,
        numbers: Vec<f32>,
        vectors: Vec<(String, usize, String)>,
        factors: Option<[usize; 3]>,
    ) -> PyResult<Self> {
        let (launcher, device) = (Arc::clone(&kernel.launcher), kernel.device.clone());
        let pattern = Arc::clone(&work.pattern);
        Ok(Self { launcher, device, pattern, tensors, scale, numbers, vectors: extents(vectors)?, factors })
    }

    /// Enqueues the attention on a stream: the addresses of Q, K, V, O and of the logarithms of the sums (0: they are not
    /// wanted), the stream, then the addresses of the score's vectors, that of the sinks of a kernel that has them, and those of the
    /// factors of Q, K and V.
    ///
    /// Nothing synchronizes; after the first launch nothing is allocated. The memory must be on the kernel's GPU, as large as it was said to be, and
    /// alive until the stream is done with it.
    #[pyo3(signature = (q, k, v, o, sums, stream, *vectors))]
    #[allow(clippy::too_many_arguments)]
    fn launch(
        &self,
        q: u64,
        k: u64,
        v: u64,
        o: u64,
        sums: u64,
        stream: usize,
        vectors: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        self.of_type([q, k, v, o], vectors, (sums, None), stream)
    }

    /// The same in a workspace of the caller's: its address and its elements of f32, which were zeros before the first launch.
    #[pyo3(signature = (workspace, q, k, v, o, sums, stream, *vectors))]
    #[allow(clippy::too_many_arguments)]
    fn launch_in(
        &self,
        workspace: (u64, usize),
        q: u64,
        k: u64,
        v: u64,
        o: u64,
        sums: u64,
        stream: usize,
        vectors: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        self.of_type([q, k, v, o], vectors, (sums, Some(workspace)), stream)
    }
}

/// Where LSE goes, 0 where it is not wanted, and the workspace of the caller's with its elements.
type Further = (u64, Option<(u64, usize)>);

impl ReadyAttention {
    fn of_type(
        &self,
        addresses: [u64; 4],
        vectors: &Bound<'_, PyTuple>,
        further: Further,
        stream: usize,
    ) -> PyResult<()> {
        let vectors: Vec<u64> = vectors.extract()?;
        let spec = self.launcher.plan().spec();
        match (spec.a, spec.out) {
            (Dtype::F16, _) => self.typed::<f16, f16>(addresses, &vectors, further, stream),
            (Dtype::BF16, _) => self.typed::<bf16, bf16>(addresses, &vectors, further, stream),
            (Dtype::E4M3, Dtype::BF16) => self.typed::<e4m3, bf16>(addresses, &vectors, further, stream),
            (Dtype::E4M3, Dtype::F16) => self.typed::<e4m3, f16>(addresses, &vectors, further, stream),
            (other, _) => Err(refused(format!("an attention of {other} is not launched from Python"))),
        }
    }

    fn typed<T: Element + Plain, O: Element + Plain>(
        &self,
        [q, k, v, o]: [u64; 4],
        vectors: &[u64],
        (sums, workspace): Further,
        stream: usize,
    ) -> PyResult<()> {
        let [of_q, of_k, of_v, of_o] = self.tensors;
        // SAFETY: the caller of the launch vouches for the memory.
        let ([q, k, v], [mut o]) = unsafe {
            let inputs = placed::<T, 3>(&self.device, &[of_q, of_k, of_v], [q, k, v]);
            (inputs, placed::<O, 1>(&self.device, &[of_o], [o]))
        };
        let [batch, heads, queries, _] = self.tensors[0].0;
        // SAFETY: as above.
        let mut sums =
            (sums != 0).then(|| unsafe { DeviceBuffer::<f32>::foreign(&self.device, sums, batch * heads * queries) });
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        let stream = unsafe { StreamRef::from_raw(stream as *mut _) };
        let of_factors = if self.factors.is_some() { 3 } else { 0 };
        let (vectors, factors) = vectors.split_at(vectors.len().saturating_sub(of_factors));
        let factors = match (factors, self.factors) {
            // SAFETY: as above.
            ([q, k, v], Some(counts)) => Some(unsafe { self.factors_at([*q, *k, *v], counts)? }),
            _ => None,
        };
        let of_sinks = usize::from(self.launcher.plan().spec().sinks.is_on()).min(vectors.len());
        let (vectors, sinks) = vectors.split_at(vectors.len() - of_sinks);
        // SAFETY: as above.
        let sinks = sinks.first().map(|at| unsafe { DeviceVector::<f32>::from_raw(*at, heads) });
        let sinks = sinks.transpose().map_err(refused)?;
        // SAFETY: as above.
        let held = unsafe { vectors_at(&self.vectors, vectors)? };
        let vectors = views(&held, &self.vectors);
        let inputs = Inputs::from((&q, &k, &v, self.scale)).scalars(&self.numbers).vectors(&vectors);
        // SAFETY: as above.
        let mut workspace = workspace.map(|(at, len)| unsafe { DeviceBuffer::<f32>::foreign(&self.device, at, len) });
        let inputs = inputs.sinks(sinks.as_ref()).factors(factors.as_ref()).workspace(workspace.as_mut());
        self.launcher.launch(stream, inputs, &self.pattern, &mut o, sums.as_mut()).map_err(refused)
    }

    /// The factors of Q, K and V.
    ///
    /// # Safety
    /// The addresses must be those of as many f32 on the device as there are factors.
    unsafe fn factors_at(&self, [q, k, v]: [u64; 3], [of_q, of_k, of_v]: [usize; 3]) -> PyResult<DeviceFactors> {
        // SAFETY: as the caller vouches.
        let held = |(at, len)| unsafe { DeviceVector::<f32>::from_raw(at, len) }.map_err(refused);
        let (q, k, v) = (held((q, of_q))?, held((k, of_k))?, held((v, of_v))?);
        match self.launcher.plan().spec().scale {
            Scale::Block => DeviceFactors::of_blocks(q, k, v).map_err(refused),
            _ => DeviceFactors::new(q, k, v).map_err(refused),
        }
    }
}

/// Tensors of the caller's.
///
/// # Safety
/// The addresses must be those of such tensors on the device, until what is launched with them is done.
pub(super) unsafe fn placed<T: Element + Plain, const N: usize>(
    device: &Device,
    layouts: &[Layout; N],
    addresses: [u64; N],
) -> [DeviceTensor<T>; N] {
    std::array::from_fn(|at| {
        let (sizes, [batch, head, row]) = layouts[at];
        // SAFETY: as the caller vouches.
        unsafe { DeviceTensor::from_raw(device, addresses[at], sizes, TensorStrides { row, head, batch }) }
    })
}

/// The element type and the length of a vector, and which heads have elements of their own.
pub(super) type Extent = (Kind, usize, Sharing);

/// The same from words.
pub(super) fn extents(vectors: Vec<(String, usize, String)>) -> PyResult<Vec<Extent>> {
    let read = |(kind, len, per): (String, usize, String)| Ok((Kind::parse(&kind)?, len, shared(&per)?));
    vectors.into_iter().map(read).collect()
}

/// Vectors of the caller's.
///
/// # Safety
/// The addresses must be those of such vectors on the device, until what is launched with them is done.
pub(super) unsafe fn vectors_at(extents: &[Extent], addresses: &[u64]) -> PyResult<Vec<AnyVector>> {
    if extents.len() != addresses.len() {
        let (found, expected) = (addresses.len(), extents.len());
        return Err(refused(format!("{found} addresses of vectors, and the score has {expected}")));
    }
    let places = extents.iter().zip(addresses);
    // SAFETY: as the caller vouches.
    places.map(|((kind, len, _), at)| unsafe { AnyVector::from_raw(*kind, *at, *len) }).collect()
}

/// What a launch is given of them.
pub(super) fn views<'v>(vectors: &'v [AnyVector], extents: &[Extent]) -> Vec<ScoreVector<'v>> {
    vectors.iter().zip(extents).map(|(vector, (.., sharing))| view(vector).shared(*sharing)).collect()
}

fn view(vector: &AnyVector) -> ScoreVector<'_> {
    match vector {
        AnyVector::F64(vector) => vector.into(),
        AnyVector::F32(vector) => vector.into(),
        AnyVector::F16(vector) => vector.into(),
        AnyVector::BF16(vector) => vector.into(),
    }
}
