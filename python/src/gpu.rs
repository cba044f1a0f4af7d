//! Launches on a GPU: operands by address, on the stream of the caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bsr::arguments::ByKind;
use bsr::gpu::{Device, DeviceBsr, DeviceDense, DeviceInputs, DeviceVector, Plain, StreamRef};
use bsr::tuner::pick::{Gpu as TunedGpu, Tuner};
use bsr::{Dtype, Element, Epilogue, KernelSpec, Launcher, Layout, Plan, bf16, e4m3, e5m2, f16};
use pyo3::prelude::*;

use crate::array::Kind;
use crate::choice;
use crate::errors::refused;
use crate::pattern::Pattern;
use crate::plan::Kernel;

/// Address, rows, columns, whether columns are contiguous, and elements from one line to the next.
type DenseArgument = (u64, usize, usize, bool, usize);

/// A GPU, and what chooses kernels for it.
#[pyclass(frozen, module = "bsr_gemm._native")]
pub(crate) struct Gpu {
    device: Device,
    tuner: Tuner,
    /// Chosen kernels by their specs: one serves every pattern.
    kernels: Mutex<HashMap<KernelSpec, Arc<Launcher>>>,
}

impl Gpu {
    fn load_plan(&self, plan: &Plan) -> PyResult<Arc<Launcher>> {
        let known = |kernels: &HashMap<KernelSpec, Arc<Launcher>>| kernels.get(plan.spec()).cloned();
        if let Some(launcher) = known(&self.kernels.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(launcher);
        }
        let ptx = plan.ptx();
        let made = Arc::new(Launcher::load(&self.device, plan, ptx.text(), ptx.entry()).map_err(refused)?);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(kernels.entry(*plan.spec()).or_insert(made)))
    }
}

#[pymethods]
impl Gpu {
    /// Opens a GPU through its primary context, which PyTorch uses too.
    #[new]
    fn new(ordinal: usize) -> PyResult<Self> {
        let device = Device::open(ordinal).map_err(refused)?;
        Ok(Self { tuner: Tuner::new(TunedGpu::from(device.info())), device, kernels: Mutex::default() })
    }

    /// The GPU's name.
    #[getter]
    fn name(&self) -> String {
        self.device.info().name.clone()
    }

    /// Copies a pattern to the GPU, for matrices of an element type.
    fn sparse(&self, py: Python<'_>, pattern: &Pattern, kind: &str) -> PyResult<Sparse> {
        let kind = Kind::parse(kind)?;
        py.detach(|| Sparse::new(&self.device, pattern, kind))
    }

    /// Chooses and loads a kernel for a product along `n`, with an epilogue or none.
    #[pyo3(signature = (pattern, facts, n, epilogue=None))]
    fn choose(
        &self,
        py: Python<'_>,
        pattern: &Pattern,
        facts: &str,
        n: usize,
        epilogue: Option<&str>,
    ) -> PyResult<Loaded> {
        let facts: KernelSpec = facts.parse().map_err(refused)?;
        let epilogue = epilogue.map(str::parse::<Epilogue>).transpose().map_err(refused)?;
        py.detach(|| {
            let chosen = choice::choose(&self.tuner, pattern, &facts, n)?;
            let plan = choice::with_epilogue(&chosen.spec, epilogue)?;
            Ok(Loaded { launcher: self.load_plan(&plan)?, why: chosen.to_string() })
        })
    }

    /// Loads a kernel.
    fn load(&self, py: Python<'_>, kernel: &Kernel) -> PyResult<Loaded> {
        let launcher = py.detach(|| self.load_plan(&kernel.plan))?;
        Ok(Loaded { launcher, why: "the program says so".to_owned() })
    }
}

/// Applies a function to the typed matrix.
macro_rules! of_each {
    ($sparse:expr, $matrix:ident => $result:expr) => {
        match $sparse {
            AnyBsr::F16($matrix) => $result,
            AnyBsr::BF16($matrix) => $result,
            AnyBsr::F32($matrix) => $result,
            AnyBsr::E4M3($matrix) => $result,
            AnyBsr::E5M2($matrix) => $result,
            AnyBsr::I8($matrix) => $result,
        }
    };
}

enum AnyBsr {
    F16(Mutex<DeviceBsr<f16>>),
    BF16(Mutex<DeviceBsr<bf16>>),
    F32(Mutex<DeviceBsr<f32>>),
    E4M3(Mutex<DeviceBsr<e4m3>>),
    E5M2(Mutex<DeviceBsr<e5m2>>),
    I8(Mutex<DeviceBsr<i8>>),
}

/// A pattern on a GPU; each launch says where the values are.
#[pyclass(frozen, module = "bsr_gemm._native")]
pub(crate) struct Sparse {
    matrix: AnyBsr,
}

impl Sparse {
    fn new(device: &Device, pattern: &Pattern, kind: Kind) -> PyResult<Self> {
        fn of<T: Element + Plain>(device: &Device, pattern: &Pattern) -> PyResult<Mutex<DeviceBsr<T>>> {
            // SAFETY: no launch reads this address: each sets its own first. A matrix is never without one.
            let matrix = unsafe { DeviceBsr::from_raw(device, &pattern.structure, 16) };
            Ok(Mutex::new(matrix.map_err(refused)?))
        }
        let matrix = match kind {
            Kind::F16 => AnyBsr::F16(of(device, pattern)?),
            Kind::BF16 => AnyBsr::BF16(of(device, pattern)?),
            Kind::F32 => AnyBsr::F32(of(device, pattern)?),
            Kind::E4M3 => AnyBsr::E4M3(of(device, pattern)?),
            Kind::E5M2 => AnyBsr::E5M2(of(device, pattern)?),
            Kind::I8 => AnyBsr::I8(of(device, pattern)?),
            Kind::F64 | Kind::I32 => {
                return Err(refused(
                    "no kernel multiplies f64 or i32\n  help: convert the matrix to f32, f16 or bf16, or use the CPU",
                ));
            }
        };
        Ok(Self { matrix })
    }
}

/// A further operand of an epilogue: its name, what it is, address, element type, rows (or length), columns, elements from
/// one line to the next, and the number itself where it is one.
type InputArgument = (String, String, u64, String, usize, usize, usize, f32);

/// A further operand on the GPU.
enum Input {
    Scalar(f32),
    F32(DeviceVector<f32>),
    F16(DeviceVector<f16>),
    BF16(DeviceVector<bf16>),
    DenseF32(DeviceDense<f32>),
    DenseF16(DeviceDense<f16>),
    DenseBF16(DeviceDense<bf16>),
}

/// A kernel on a GPU.
#[pyclass(frozen, module = "bsr_gemm._native")]
pub(crate) struct Loaded {
    launcher: Arc<Launcher>,
    why: String,
}

#[pymethods]
impl Loaded {
    /// The kernel's spec.
    #[getter]
    fn spec(&self) -> String {
        self.launcher.plan().spec().to_string()
    }

    /// How it was chosen.
    #[getter]
    fn why(&self) -> &str {
        &self.why
    }

    /// Enqueues C = A B on a stream, one of the factors sparse. Nothing synchronizes; after the first launch of a pattern
    /// and a length nothing is allocated.
    ///
    /// The memory must be on the kernel's GPU, as large as it is said to be, and alive until the stream is done with it.
    #[pyo3(signature = (sparse, values, dense, out, stream, inputs=Vec::new(), second=None))]
    #[allow(clippy::too_many_arguments)]
    fn product(
        &self,
        sparse: &Sparse,
        values: u64,
        dense: DenseArgument,
        out: DenseArgument,
        stream: usize,
        inputs: Vec<InputArgument>,
        second: Option<(u64, usize)>,
    ) -> PyResult<()> {
        let call =
            Call { launcher: &self.launcher, stream, inputs: read_inputs(inputs, self.launcher.plan())?, second };
        of_each!(&sparse.matrix, matrix => {
            let mut matrix = matrix.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller vouches for the memory, which is that of this launch alone while the lock is held.
            unsafe { matrix.set_values(values) }.map_err(refused)?;
            call.product(&matrix, dense, out)
        })
    }

    /// Enqueues the stored blocks of C = A B, with both factors dense; the rest is as in `product`.
    #[pyo3(signature = (sparse, values, a, b, stream, inputs=Vec::new(), second=None))]
    #[allow(clippy::too_many_arguments)]
    fn sampled(
        &self,
        sparse: &Sparse,
        values: u64,
        a: DenseArgument,
        b: DenseArgument,
        stream: usize,
        inputs: Vec<InputArgument>,
        second: Option<(u64, usize)>,
    ) -> PyResult<()> {
        let call =
            Call { launcher: &self.launcher, stream, inputs: read_inputs(inputs, self.launcher.plan())?, second };
        of_each!(&sparse.matrix, matrix => {
            let mut matrix = matrix.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller vouches for the memory, which is that of this launch alone while the lock is held.
            unsafe { matrix.set_values(values) }.map_err(refused)?;
            call.sampled(&mut matrix, a, b)
        })
    }
}

/// What a launch has besides its matrices.
struct Call<'a> {
    launcher: &'a Launcher,
    stream: usize,
    inputs: Vec<(String, Input)>,
    second: Option<(u64, usize)>,
}

impl Call<'_> {
    fn product<T: Element + Plain>(
        &self,
        sparse: &DeviceBsr<T>,
        dense: DenseArgument,
        out: DenseArgument,
    ) -> PyResult<()> {
        let dense = view::<T>(dense)?;
        match self.launcher.plan().spec().out {
            Dtype::F16 => self.product_into(sparse, &dense, &mut view::<f16>(out)?),
            Dtype::BF16 => self.product_into(sparse, &dense, &mut view::<bf16>(out)?),
            Dtype::F32 => self.product_into(sparse, &dense, &mut view::<f32>(out)?),
            Dtype::I32 => self.product_into(sparse, &dense, &mut view::<i32>(out)?),
            Dtype::E4M3 => self.product_into(sparse, &dense, &mut view::<e4m3>(out)?),
            other => Err(refused(format!("a kernel with results of {other} is not launched from Python"))),
        }
    }

    fn product_into<T: Element + Plain, C: Element + Plain>(
        &self,
        sparse: &DeviceBsr<T>,
        dense: &DeviceDense<T>,
        out: &mut DeviceDense<C>,
    ) -> PyResult<()> {
        let mut second = self.second()?;
        let launched = self.launcher.launch(self.stream(), ByKind(sparse, dense, self.given()), (out, second.as_mut()));
        launched.map_err(refused)
    }

    fn sampled<T: Element + Plain>(&self, c: &mut DeviceBsr<T>, a: DenseArgument, b: DenseArgument) -> PyResult<()> {
        match self.launcher.plan().spec().a {
            Dtype::F16 => self.sampled_of(&view::<f16>(a)?, &view::<f16>(b)?, c),
            Dtype::BF16 => self.sampled_of(&view::<bf16>(a)?, &view::<bf16>(b)?, c),
            other => Err(refused(format!("a sampled product of {other} is not launched from Python"))),
        }
    }

    fn sampled_of<F: Element + Plain, T: Element + Plain>(
        &self,
        a: &DeviceDense<F>,
        b: &DeviceDense<F>,
        c: &mut DeviceBsr<T>,
    ) -> PyResult<()> {
        let mut second = self.second()?;
        self.launcher.launch(self.stream(), (a, b, self.given()), (c, second.as_mut())).map_err(refused)
    }

    fn stream(&self) -> StreamRef<'_> {
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        unsafe { StreamRef::from_raw(self.stream as *mut _) }
    }

    fn second(&self) -> PyResult<Option<DeviceVector<f32>>> {
        // SAFETY: the caller vouches for the memory.
        self.second.map(|(ptr, len)| unsafe { DeviceVector::from_raw(ptr, len) }.map_err(refused)).transpose()
    }

    fn given(&self) -> DeviceInputs<'_> {
        self.inputs.iter().fold(DeviceInputs::new(), |inputs, (name, input)| match input {
            Input::Scalar(value) => inputs.scalar(name, *value),
            Input::F32(vector) => inputs.vector(name, vector),
            Input::F16(vector) => inputs.vector(name, vector),
            Input::BF16(vector) => inputs.vector(name, vector),
            Input::DenseF32(matrix) => inputs.matrix(name, matrix),
            Input::DenseF16(matrix) => inputs.matrix(name, matrix),
            Input::DenseBF16(matrix) => inputs.matrix(name, matrix),
        })
    }
}

/// A matrix of the caller's.
fn view<T: Element + Plain>((ptr, rows, cols, is_col, ld): DenseArgument) -> PyResult<DeviceDense<T>> {
    let layout = if is_col { Layout::ColMajor } else { Layout::RowMajor };
    // SAFETY: the caller vouches for the memory.
    unsafe { DeviceDense::from_raw(ptr, rows, cols, layout, ld) }.map_err(refused)
}

fn read_inputs(arguments: Vec<InputArgument>, plan: &Plan) -> PyResult<Vec<(String, Input)>> {
    let is_col = plan.spec().c_layout == Layout::ColMajor;
    let read = |argument: InputArgument| -> PyResult<(String, Input)> {
        let (name, what, ptr, kind, rows, cols, ld, number) = argument;
        let dense = (ptr, rows, cols, is_col, ld);
        let input = match (what.as_str(), kind.as_str()) {
            ("scalar", _) => Input::Scalar(number),
            ("dense", "f16") => Input::DenseF16(view(dense)?),
            ("dense", "bf16") => Input::DenseBF16(view(dense)?),
            ("dense", _) => Input::DenseF32(view(dense)?),
            // SAFETY: the caller vouches for the memory.
            (_, "f16") => Input::F16(unsafe { DeviceVector::from_raw(ptr, rows) }.map_err(refused)?),
            // SAFETY: the caller vouches for the memory.
            (_, "bf16") => Input::BF16(unsafe { DeviceVector::from_raw(ptr, rows) }.map_err(refused)?),
            // SAFETY: the caller vouches for the memory.
            _ => Input::F32(unsafe { DeviceVector::from_raw(ptr, rows) }.map_err(refused)?),
        };
        Ok((name, input))
    };
    arguments.into_iter().map(read).collect()
}
