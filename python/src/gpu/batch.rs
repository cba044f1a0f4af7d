//! Products of different matrices in one launch.

use std::sync::Arc;

use bsr::arguments::ByKind;
use bsr::gpu::{Device, DeviceBsr, DeviceDense, DeviceInputs, Plain, StreamRef};
use bsr::{Dtype, Element, Launcher, bf16, f16};
use bsr_runtime::kernel::PreparedBatch;
use pyo3::prelude::*;

use super::Loaded;
use super::further::{Shape, view};
use crate::errors::refused;
use crate::pattern::Pattern;

/// One product: the pattern, the addresses of the stored values, of the dense factor and of C, and the shapes of both.
type Problem = (Py<Pattern>, u64, (u64, Shape), (u64, Shape));

/// Products whose work plan and addresses are on the GPU.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct Batch {
    /// It borrows what the launcher points to, and is dropped first.
    prepared: PreparedBatch<'static, 'static>,
    _launcher: Arc<Launcher>,
}

#[pymethods]
impl Batch {
    /// Products of a kernel with `batch = on`. The memory must be on its GPU, as large as it is said to be, and alive
    /// whenever the batch is launched.
    #[new]
    fn new(py: Python<'_>, kernel: &Loaded, problems: Vec<Problem>) -> PyResult<Self> {
        let launcher = Arc::clone(&kernel.launcher);
        let spec = launcher.plan().spec();
        let prepared = match (spec.a, spec.out) {
            (Dtype::F16, Dtype::F16) => prepared::<f16, f16>(py, &launcher, &problems)?,
            (Dtype::BF16, Dtype::BF16) => prepared::<bf16, bf16>(py, &launcher, &problems)?,
            (a, out) => {
                return Err(refused(format!("a list of products of {a} into {out} is not launched from Python")));
            }
        };
        Ok(Self { prepared, _launcher: launcher })
    }

    /// Enqueues all products on a stream; nothing is allocated and nothing synchronizes.
    fn launch(&self, stream: usize) -> PyResult<()> {
        // SAFETY: PyTorch's current stream of the device, alive during the call.
        let stream = unsafe { StreamRef::from_raw(stream as *mut _) };
        self.prepared.launch(stream).map_err(refused)
    }
}

/// What a launch reads.
struct Operands<T: Plain, C: Plain> {
    sparse: DeviceBsr<T>,
    dense: DeviceDense<T>,
    out: DeviceDense<C>,
}

impl<T: Element + Plain, C: Element + Plain> Operands<T, C> {
    fn of(py: Python<'_>, device: &Device, problem: &Problem) -> PyResult<Self> {
        let (pattern, values, dense, out) = problem;
        let pattern = pattern.borrow(py);
        // SAFETY: the caller vouches for the memory.
        unsafe {
            let sparse = DeviceBsr::from_raw(device, &pattern.structure, *values).map_err(refused)?;
            Ok(Self { sparse, dense: view(dense.0, dense.1)?, out: view(out.0, out.1)? })
        }
    }
}

fn prepared<T: Element + Plain, C: Element + Plain>(
    py: Python<'_>,
    launcher: &Arc<Launcher>,
    problems: &[Problem],
) -> PyResult<PreparedBatch<'static, 'static>> {
    let operands = problems.iter().map(|problem| Operands::<T, C>::of(py, launcher.device(), problem));
    let mut operands = operands.collect::<PyResult<Vec<_>>>()?;
    let mut batch = launcher.batch();
    for Operands { sparse, dense, out } in &mut operands {
        let call = ByKind(&*sparse, &*dense, DeviceInputs::new());
        batch.push(call, (out, None)).map_err(refused)?;
    }
    let prepared = batch.prepare().map_err(refused)?;
    // SAFETY: the launcher outlives it, as `Batch` holds both. Of the operands a launch reads only the foreign memory, for
    // which the caller of `Batch::new` vouches: places of blocks were copied.
    Ok(unsafe { std::mem::transmute::<PreparedBatch<'_, '_>, PreparedBatch<'static, 'static>>(prepared) })
}
