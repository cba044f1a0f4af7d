//! Products of two block-sparse matrices in blocks whose kernel and patterns are known: a launch says only where the values lie.

use std::sync::{Arc, Mutex};

use bsr::gpu::{DeviceBsr, Plain, StreamRef};
use bsr::{Dtype, Element, Launcher, bf16, f16};
use pyo3::prelude::*;

use super::Loaded;
use super::sparse::{Places, at};
use crate::errors::refused;
use crate::pattern::Pattern;

/// A product that only lacks its addresses. Each has matrices of its own: factors may have one pattern.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct ReadyPairs {
    launcher: Arc<Launcher>,
    matrices: Matrices,
}

enum Matrices {
    F16([Mutex<DeviceBsr<f16>>; 3]),
    BF16([Mutex<DeviceBsr<bf16>>; 3]),
}

#[pymethods]
impl ReadyPairs {
    /// The product of two patterns, at the blocks of a third.
    #[new]
    fn new(py: Python<'_>, kernel: &Loaded, a: &Pattern, b: &Pattern, c: &Pattern) -> PyResult<Self> {
        let launcher = Arc::clone(&kernel.launcher);
        let patterns = [a, b, c];
        let matrices = py.detach(|| match launcher.plan().spec().a {
            Dtype::F16 => Ok(Matrices::F16(placed(&launcher, patterns)?)),
            Dtype::BF16 => Ok(Matrices::BF16(placed(&launcher, patterns)?)),
            other => Err(refused(format!("a product of two block-sparse matrices of {other} is not launched"))),
        })?;
        Ok(Self { launcher, matrices })
    }

    /// Enqueues the product on a stream: the addresses of the stored values of A, B and C.
    ///
    /// Nothing synchronizes. The memory must be on the kernel's GPU, as large as the patterns say, and alive until the stream is
    /// done with it.
    fn launch(&self, a: u64, b: u64, c: u64, stream: usize) -> PyResult<()> {
        match &self.matrices {
            Matrices::F16(matrices) => self.enqueue(matrices, [a, b, c], stream),
            Matrices::BF16(matrices) => self.enqueue(matrices, [a, b, c], stream),
        }
    }
}

impl ReadyPairs {
    fn enqueue<T: Element + Plain>(
        &self,
        [a, b, c]: &[Mutex<DeviceBsr<T>>; 3],
        places: [u64; 3],
        stream: usize,
    ) -> PyResult<()> {
        // SAFETY: the caller vouches for the memory.
        let (a, b, mut c) = unsafe { (at(a, places[0])?, at(b, places[1])?, at(c, places[2])?) };
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        let stream: StreamRef<'static> = unsafe { StreamRef::from_raw(stream as *mut _) };
        self.launcher.launch(stream, (&*a, &*b), &mut *c).map_err(refused)
    }
}

fn placed<T: Element + Plain>(launcher: &Launcher, [a, b, c]: [&Pattern; 3]) -> PyResult<[Mutex<DeviceBsr<T>>; 3]> {
    let of = |pattern| Places::Host(launcher.device(), pattern).matrix();
    Ok([of(a)?, of(b)?, of(c)?])
}
