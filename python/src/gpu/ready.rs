//! Products whose kernel, pattern and shapes are known: a launch says only where the operands lie.

use std::sync::Arc;

use bsr::arguments::ByKind;
use bsr::gpu::{DeviceBsr, DeviceDense, DeviceVector, Plain, StreamRef};
use bsr::{Dtype, Element, Launcher, Layout, Op, bf16, e4m3, f16};
use bsr_codegen::Operand;
use bsr_runtime::extents::sparse_operand;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::further::{Further, FurtherArgument, Given, Shape, give_all, inputs, view};
use super::sparse::{AnyBsr, at, of_each};
use super::{Loaded, Sparse};
use crate::errors::refused;
use crate::pattern::Pattern;

/// A product that only lacks its addresses.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct Ready {
    launcher: Arc<Launcher>,
    sparse: Py<Sparse>,
    /// The dense factor and C; of an SDDMM both factors.
    matrices: [Shape; 2],
    further: Vec<Further>,
    /// Elements of the second result, where there is one.
    second: Option<usize>,
}

#[pymethods]
impl Ready {
    /// A product of `kernel` with the pattern of `sparse`, which is `pattern` unless it lives on the GPU. `matrices` are the shapes of the dense factor and of C, of an
    /// SDDMM those of both factors; `further` is what the epilogue reads, `second` the length of a second result.
    #[new]
    #[pyo3(signature = (kernel, sparse, pattern, matrices, further=Vec::new(), second=None))]
    fn new(
        kernel: &Loaded,
        sparse: Py<Sparse>,
        pattern: Option<&Pattern>,
        matrices: (Shape, Shape),
        further: Vec<FurtherArgument>,
        second: Option<usize>,
    ) -> PyResult<Self> {
        let launcher = Arc::clone(&kernel.launcher);
        let is_col = launcher.plan().spec().c_layout == Layout::ColMajor;
        let read = |argument| Further::new(launcher.device(), pattern, is_col, argument);
        let further = further.into_iter().map(read).collect::<PyResult<_>>()?;
        Ok(Self { launcher, sparse, matrices: [matrices.0, matrices.1], further, second })
    }

    /// Enqueues the product on a stream: the address of the stored values, those of the two matrices, the stream, then that
    /// of each further operand (of a number: the number) and that of the second result.
    ///
    /// Nothing synchronizes; after the first launch nothing is allocated. The memory must be on the kernel's GPU, as large as
    /// it was said to be, and alive until the stream is done with it.
    #[pyo3(signature = (values, first, second, stream, *further))]
    fn launch(
        &self,
        py: Python<'_>,
        values: u64,
        first: u64,
        second: u64,
        stream: usize,
        further: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        // SAFETY: the caller vouches for the memory.
        let (given, collected) = unsafe { give_all(&self.further, self.second, further)? };
        let mut launch = Launch { ready: self, places: [first, second], stream, given: &given, second: collected };
        let sparse = self.sparse.borrow(py);
        of_each!(&sparse.matrix, matrix => {
            // SAFETY: the caller vouches for the memory.
            let mut matrix = unsafe { at(matrix, values)? };
            // What is ready has been loaded for a matrix in blocks: it is no attention.
            match sparse_operand(self.launcher.plan().spec().op) {
                Operand::C => launch.sddmm(&mut matrix),
                _ => launch.product(&matrix),
            }
        })
    }
}

/// A product with its addresses.
struct Launch<'a> {
    ready: &'a Ready,
    places: [u64; 2],
    stream: usize,
    given: &'a [Given<'a>],
    second: Option<DeviceVector<f32>>,
}

impl Launch<'_> {
    fn product<T: Element + Plain>(&mut self, sparse: &DeviceBsr<T>) -> PyResult<()> {
        match self.ready.launcher.plan().spec().out {
            Dtype::F16 => self.product_into::<T, f16>(sparse),
            Dtype::BF16 => self.product_into::<T, bf16>(sparse),
            Dtype::F32 => self.product_into::<T, f32>(sparse),
            Dtype::F64 => self.product_into::<T, f64>(sparse),
            Dtype::I32 => self.product_into::<T, i32>(sparse),
            Dtype::E4M3 => self.product_into::<T, e4m3>(sparse),
            other => Err(refused(format!("a kernel with results of {other} is not launched from Python"))),
        }
    }

    fn product_into<T: Element + Plain, C: Element + Plain>(&mut self, sparse: &DeviceBsr<T>) -> PyResult<()> {
        let spec = self.ready.launcher.plan().spec();
        // Small blocks alone have a dense operand of another type.
        match if spec.op == Op::Dds { spec.a } else { spec.b } {
            Dtype::F32 => self.product_of::<T, f32, C>(sparse),
            Dtype::F64 => self.product_of::<T, f64, C>(sparse),
            _ => self.product_of::<T, T, C>(sparse),
        }
    }

    fn product_of<T, B, C>(&mut self, sparse: &DeviceBsr<T>) -> PyResult<()>
    where
        T: Element + Plain,
        B: Element + Plain,
        C: Element + Plain,
    {
        let (dense, mut out) = (self.matrix::<B>(0)?, self.matrix::<C>(1)?);
        let Ready { launcher, further, .. } = self.ready;
        let call = ByKind(sparse, &dense, inputs(further, self.given));
        launcher.launch(self.stream(), call, (&mut out, self.second.as_mut())).map_err(refused)
    }

    fn sddmm<T: Element + Plain>(&mut self, c: &mut DeviceBsr<T>) -> PyResult<()> {
        match self.ready.launcher.plan().spec().a {
            Dtype::F16 => self.sddmm_of::<f16, T>(c),
            Dtype::BF16 => self.sddmm_of::<bf16, T>(c),
            other => Err(refused(format!("an SDDMM of {other} is not launched from Python"))),
        }
    }

    fn sddmm_of<F: Element + Plain, T: Element + Plain>(&mut self, c: &mut DeviceBsr<T>) -> PyResult<()> {
        let (a, b) = (self.matrix::<F>(0)?, self.matrix::<F>(1)?);
        let Ready { launcher, further, .. } = self.ready;
        let call = (&a, &b, inputs(further, self.given));
        launcher.launch(self.stream(), call, (c, self.second.as_mut())).map_err(refused)
    }

    fn matrix<T: Element + Plain>(&self, at: usize) -> PyResult<DeviceDense<T>> {
        // SAFETY: the caller of the launch vouches for the memory.
        unsafe { view(self.places[at], self.ready.matrices[at]) }
    }

    fn stream(&self) -> StreamRef<'static> {
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        unsafe { StreamRef::from_raw(self.stream as *mut _) }
    }
}
