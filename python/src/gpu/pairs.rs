//! Products of two block-sparse matrices whose kernel and patterns are known: a launch says only where the values lie.

use std::sync::{Arc, Mutex};

use bsr::gpu::{Device, DeviceBsr, DeviceDense, DeviceInputs, DeviceVector, StreamRef};
use bsr::{Launcher, Layout};
use bsr_runtime::typed::{Number, Typed, with_types};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::Loaded;
use super::further::{Further, FurtherArgument, give_all, inputs};
use super::listed::DevicePattern;
use super::sparse::{Places, at};
use crate::errors::{Failed, refused};
use crate::pattern::Pattern;

/// A product that only lacks its addresses. Each has matrices of its own: factors may have one pattern.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct ReadyPairs {
    launcher: Arc<Launcher>,
    product: Box<dyn Product>,
    further: Vec<Further>,
    /// Elements of the second result, where there is one.
    second: Option<usize>,
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
    unsafe fn enqueue(
        &self,
        launcher: &Launcher,
        places: Addresses,
        rest: Rest<'_>,
        stream: StreamRef<'_>,
    ) -> PyResult<()>;
}

/// Where A, B and C are, and elements from one line of a dense C to the next.
type Addresses = ([u64; 3], usize);

/// What else a launch reads and writes.
type Rest<'a> = (DeviceInputs<'a>, Option<&'a mut DeviceVector<f32>>);

#[pymethods]
impl ReadyPairs {
    /// The product of two patterns: at the blocks of a third, or whole where there is none. All of them are on the host, or on the GPU.
    /// `further` is what the epilogue reads, `second` the length of a second result.
    #[new]
    #[pyo3(signature = (kernel, a, b, c, further=Vec::new(), second=None))]
    fn new(
        py: Python<'_>,
        kernel: &Loaded,
        a: Somewhere<'_>,
        b: Somewhere<'_>,
        c: Option<Somewhere<'_>>,
        further: Vec<FurtherArgument>,
        second: Option<usize>,
    ) -> PyResult<Self> {
        let launcher = Arc::clone(&kernel.launcher);
        let blocks = match &c {
            Some(Somewhere::Host(pattern)) => Some(&**pattern),
            _ => None,
        };
        let is_col = launcher.plan().spec().c_layout == Layout::ColMajor;
        let read = |argument| Further::new(launcher.device(), blocks, is_col, argument);
        let further = further.into_iter().map(read).collect::<PyResult<_>>()?;
        let (spec, device) = (launcher.plan().spec(), launcher.device());
        let (a, b, c) = (a.places(device), b.places(device), c.as_ref().map(|c| c.places(device)));
        let product = py.detach(|| with_types(spec, Place { launcher: &launcher, a, b, c }));
        Ok(Self { product: product.map_err(|Failed(error)| error)?, launcher, further, second })
    }

    /// Enqueues the product on a stream: the addresses of the stored values of A, of those of B, whose blocks lie in the kernel's
    /// `b_layout`, and of C, of a dense one with so many elements from one line to the next; then that of each further operand
    /// (of a number: the number) and that of the second result.
    ///
    /// Nothing synchronizes. The memory must be on the kernel's GPU, as large as the patterns say, and alive until the stream is
    /// done with it.
    #[pyo3(signature = (a, b, c, line, stream, *further))]
    fn launch(&self, a: u64, b: u64, c: u64, line: usize, stream: usize, further: &Bound<'_, PyTuple>) -> PyResult<()> {
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        let stream: StreamRef<'static> = unsafe { StreamRef::from_raw(stream as *mut _) };
        // SAFETY: the caller vouches for the memory.
        let (given, mut second) = unsafe { give_all(&self.further, self.second, further)? };
        let rest = (inputs(&self.further, &given), second.as_mut());
        // SAFETY: as above.
        unsafe { self.product.enqueue(&self.launcher, ([a, b, c], line), rest, stream) }
    }
}

/// A pattern of the host, or one on a GPU.
#[derive(FromPyObject)]
pub(super) enum Somewhere<'py> {
    Host(PyRef<'py, Pattern>),
    Gpu(PyRef<'py, DevicePattern>),
}

impl Somewhere<'_> {
    /// The pattern, or of one on a GPU one of its shape that the host knows.
    pub(super) fn known(&self) -> &Pattern {
        match self {
            Self::Host(pattern) => pattern,
            Self::Gpu(pattern) => pattern.likely(),
        }
    }

    pub(super) fn is_on_gpu(&self) -> bool {
        matches!(self, Self::Gpu(_))
    }

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
        (places, line): Addresses,
        (inputs, second): Rest<'_>,
        stream: StreamRef<'_>,
    ) -> PyResult<()> {
        // SAFETY: the caller vouches for the memory.
        let (a, b) = unsafe { (at(&self.a, places[0])?, at(&self.b, places[1])?) };
        match &self.c {
            Target::Blocks(c) => {
                // SAFETY: as above.
                let mut c = unsafe { at(c, places[2])? };
                launcher.launch(stream, (&*a, &*b, inputs), (&mut *c, second)).map_err(refused)
            }
            Target::Dense(rows, cols, layout) => {
                // SAFETY: as above.
                let c = unsafe { DeviceDense::<C>::from_raw(places[2], *rows, *cols, *layout, line) };
                let mut c = c.map_err(refused)?;
                launcher.launch(stream, (&*a, &*b, inputs), (&mut c, second)).map_err(refused)
            }
        }
    }
}
