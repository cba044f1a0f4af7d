//! Page tables that live on the GPU: views of arrays of PyTorch.

use std::sync::Arc;

use bsr_runtime::attention::{self, PageShape};
use pyo3::prelude::*;

use super::Gpu;
use crate::errors::refused;

/// A page table on a GPU, as arrays that PyTorch keeps.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct DevicePages {
    pub(super) pages: Arc<attention::DevicePages>,
}

#[pymethods]
impl DevicePages {
    /// Views a table of so many problems with so many entries each, and the keys of each problem, both of i32: of K and V in so
    /// many pages of so many keys. The arrays must stay where they are while the table is used.
    #[new]
    fn new(py: Python<'_>, gpu: &Gpu, shape: [usize; 4], table: u64, lengths: u64) -> PyResult<Self> {
        let [batch, width, pages, page] = shape;
        let shape = PageShape { batch, width, pages, page };
        // SAFETY: the Python half keeps the tensors, whose lengths it has compared, as long as this object.
        let view = || unsafe { attention::DevicePages::from_raw(&gpu.device, shape, table, lengths) };
        Ok(Self { pages: Arc::new(py.detach(view).map_err(refused)?) })
    }

    /// Says that the arrays have changed, or will have when the next launch runs.
    fn changed(&self) {
        self.pages.changed();
    }

    /// Waits for the GPU, and tells the first wrong problem that a check has found, once.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.pages.check()).map_err(refused)
    }
}
