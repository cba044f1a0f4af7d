//! Products of two block-sparse matrices whose kernel and patterns are known: a launch says only where the values lie.

use std::sync::{Arc, Mutex};

use bsr::gpu::{Device, DeviceBsr, DeviceDense, StreamRef};
use bsr::{Launcher, Layout};
use bsr_runtime::typed::{Number, Typed, with_types};
use pyo3::prelude::*;

use super::listed::DevicePattern;
use super::sparse::{Places, at};
use super::Loaded;
use crate::errors::{Failed, refused};
use crate::pattern::Pattern;

/// A product that only lacks its addresses. Each has matrices of its own: factors may have one pattern.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct ReadyPairs {
    launcher: Arc<Launcher>,
    product: Box<dyn Product>,
}

/// A product of elements of some types.
trait Product: Send + Sync {
    /// Enqueues it for values at these addresses, of a dense C with so many elements from one line to the next.
    ///
    /// # Errors
    /// Those of a launch.
    ///
    /// # Safety
    /// As [`ReadyPairs::launch`] says.
    unsafe fn enqueue(&self, launcher: &Launcher, places: [u64; 3], line: usize, stream: StreamRef<'_>)
    -> PyResult<()>;
}

#[pymethods]
impl ReadyPairs {
    /// The product of two patterns: at the blocks of a third, or whole where there is none. All of them are on the host, or on the GPU.
    #[new]
    fn new(
        py: Python<'_>,
        kernel: &Loaded,
        a: Somewhere<'_>,
        b: Somewhere<'_>,
        c: Option<Somewhere<'_>>,
    ) -> PyResult<Self> {
        let launcher = Arc::clone(&kernel.launcher);
        let (spec, device) = (launcher.plan().spec(), launcher.device());
        let (a, b, c) = (a.places(device), b.places(device), c.as_ref().map(|c| c.places(device)));
        let product = py.detach(|| with_types(spec, Place { launcher: &launcher, a, b, c }));
        Ok(Self { product: product.map_err(|Failed(error)| error)?, launcher })
    }

    /// Enqueues the product on a stream: the addresses of the stored values of A, of those of B, whose blocks lie in the kernel's
    /// `b_layout`, and of C, of a dense one with so many elements from one line to the next.
    ///
    /// Nothing synchronizes. The memory must be on the kernel's GPU, as large as the patterns say, and alive until the stream is
    /// done with it.
    fn launch(&self, a: u64, b: u64, c: u64, line: usize, stream: usize) -> PyResult<()> {
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        let stream: StreamRef<'static> = unsafe { StreamRef::from_raw(stream as *mut _) };
        // SAFETY: the caller vouches for the memory.
        unsafe { self.product.enqueue(&self.launcher, [a, b, c], line, stream) }
    }
}

/// A pattern of the host, or one on a GPU.
#[derive(FromPyObject)]
enum Somewhere<'py> {
    Host(PyRef<'py, Pattern>),
    Gpu(PyRef<'py, DevicePattern>),
}

impl Somewhere<'_> {
    fn places<'a>(&'a self, device: &'a Device) -> Places<'a> {
        match self {
            Self::Host(pattern) => Places::Host(device, pattern),
            Self::Gpu(pattern) => Places::Gpu(&pattern.pattern),
        }
    }
}

/// Makes the matrices of a product.
struct Place<'p> {
    launcher: &'p Launcher,
    a: Places<'p>,
    b: Places<'p>,
    c: Option<Places<'p>>,
}

impl Typed for Place<'_> {
    type Output = Box<dyn Product>;
    type Error = Failed;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Box<dyn Product>, Failed> {
        let Self { launcher, a, b, c } = self;
        let spec = launcher.plan().spec();
        let (a, b) = (a.alone::<A>().map_err(Failed)?, b.alone::<B>().map_err(Failed)?);
        let c = match c {
            Some(places) => Target::Blocks(Box::new(places.matrix().map_err(Failed)?)),
            None => Target::Dense(a.structure().rows(), b.structure().cols(), spec.c_layout),
        };
        let b = if spec.b_layout == Layout::ColMajor { b.by_columns() } else { b };
        Ok(Box::new(Placed::<A, B, C> { a: Mutex::new(a), b: Mutex::new(b), c }))
    }
}

/// The matrices of a product.
struct Placed<A: Number, B: Number, C: Number> {
    a: Mutex<DeviceBsr<A>>,
    b: Mutex<DeviceBsr<B>>,
    c: Target<C>,
}

enum Target<C: Number> {
    Blocks(Box<Mutex<DeviceBsr<C>>>),
    /// Rows, columns, and which of them are contiguous.
    Dense(usize, usize, Layout),
}

impl<A: Number, B: Number, C: Number> Product for Placed<A, B, C> {
    unsafe fn enqueue(
        &self,
        launcher: &Launcher,
        places: [u64; 3],
        line: usize,
        stream: StreamRef<'_>,
    ) -> PyResult<()> {
        // SAFETY: the caller vouches for the memory.
        let (a, b) = unsafe { (at(&self.a, places[0])?, at(&self.b, places[1])?) };
        match &self.c {
            Target::Blocks(c) => {
                // SAFETY: as above.
                let mut c = unsafe { at(c, places[2])? };
                launcher.launch(stream, (&*a, &*b), &mut *c).map_err(refused)
            }
            Target::Dense(rows, cols, layout) => {
                // SAFETY: as above.
                let c = unsafe { DeviceDense::<C>::from_raw(places[2], *rows, *cols, *layout, line) };
                launcher.launch(stream, (&*a, &*b), &mut c.map_err(refused)?).map_err(refused)
            }
        }
    }
}
