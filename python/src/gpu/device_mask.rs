//! Masks of attention that live on the GPU: views of arrays of PyTorch.

use std::sync::Arc;

use bsr::gpu::IndexWidth;
use bsr_runtime::attention::{self, DeviceMaskShape, PartialBlocks};
use pyo3::prelude::*;

use super::Gpu;
use crate::attention::shared;
use crate::errors::refused;

/// A mask on a GPU, as arrays that PyTorch keeps.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct DeviceMask {
    pub(super) mask: Arc<attention::DeviceMask>,
}

#[pymethods]
impl DeviceMask {
    /// Views the arrays of a mask of `sizes` queries x keys, whose `patterns` lie one below the other: row starts and block
    /// columns of 64 (`wide`) or 32 bits and, unless the third address is 0, a byte for each stored block that is not 0 where it
    /// is partial; or, where the second address is 0, a byte for every block: 0, 1 for a whole one, 2 for a partial one. With
    /// `scored` every block is partial. The arrays must stay where they are while the mask is used.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        gpu: &Gpu,
        sizes: (usize, usize),
        block: (usize, usize),
        per: (&str, usize),
        capacity: usize,
        wide: bool,
        arrays: (u64, u64, u64),
        scored: bool,
    ) -> PyResult<Self> {
        let (sharing, patterns) = (shared(per.0)?, per.1);
        let shape = DeviceMaskShape { queries: sizes.0, keys: sizes.1, block, sharing, patterns, capacity };
        let width = if wide { IndexWidth::I64 } else { IndexWidth::I32 };
        let mask = py.detach(|| {
            // SAFETY: the Python half keeps the tensors, whose lengths it has compared, as long as this object.
            let mask = unsafe {
                match arrays {
                    (bytes, 0, _) => attention::DeviceMask::from_raw_bytes(&gpu.device, shape, bytes),
                    (indptr, indices, partial) => {
                        let partial = if partial == 0 { PartialBlocks::None } else { PartialBlocks::Flags(partial) };
                        attention::DeviceMask::from_raw(&gpu.device, shape, width, (indptr, indices), partial)
                    }
                }
            };
            mask.map_err(refused)
        })?;
        Ok(Self { mask: Arc::new(if scored { mask.scored() } else { mask }) })
    }

    /// Says that the arrays have changed, or will have when the next launch runs.
    fn changed(&self) {
        self.mask.changed();
    }

    /// Waits for the GPU, and tells the first wrong row of blocks that a check has found, once.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.mask.check()).map_err(refused)
    }
}
