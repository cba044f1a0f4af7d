//! Patterns that live on the GPU: views of arrays of PyTorch, and kernels that take them.

use std::sync::Arc;

use bsr::gpu::{self, Fingerprint, IndexWidth, PatternShape};
use bsr::tuner::pick::Choice;
use bsr::{Epilogue, KernelSpec, Launcher, Pattern as Generator, Pdl, Plan};
use pyo3::prelude::*;

use super::sparse::{AnyBsr, Places};
use super::{Gpu, Sparse};
use crate::array::Kind;
use crate::choice;
use crate::errors::refused;
use crate::pattern::Pattern;

/// The most blocks of the pattern that a kernel is chosen for in place of the one on the GPU, which the host does not know.
const MOST: usize = 1 << 18;

/// A pattern on a GPU, as arrays that PyTorch keeps.
#[pyclass(frozen, module = "bsr_gemm._lib._native")]
pub(crate) struct DevicePattern {
    pub(super) pattern: Arc<gpu::DevicePattern>,
    /// One of the same shape with as many blocks as there is room for.
    likely: Pattern,
}

#[pymethods]
impl DevicePattern {
    /// Views the arrays of a pattern: row pointers and block columns of 64 (`wide`) or 32 bits, or a mask with a byte for every
    /// block, which is at the first address where the second one is 0. They must stay where they are while the pattern is used.
    #[new]
    fn new(
        py: Python<'_>,
        gpu: &Gpu,
        sizes: (usize, usize),
        block: (usize, usize),
        capacity: usize,
        wide: bool,
        arrays: (u64, u64),
    ) -> PyResult<Self> {
        let shape = PatternShape { rows: sizes.0, cols: sizes.1, block, capacity };
        let width = if wide { IndexWidth::I64 } else { IndexWidth::I32 };
        py.detach(|| {
            // SAFETY: the Python half keeps the tensors, whose lengths it has compared, as long as this object.
            let pattern = unsafe {
                match arrays {
                    (mask, 0) => gpu::DevicePattern::from_raw_mask(&gpu.device, shape, mask),
                    arrays => gpu::DevicePattern::from_raw(&gpu.device, shape, width, arrays),
                }
            };
            Ok(Self { pattern: Arc::new(pattern.map_err(refused)?), likely: likely(&shape)? })
        })
    }

    /// The pattern of the product of two, which is made again on the GPU whenever one of them has changed: at most so many blocks.
    #[staticmethod]
    fn product(py: Python<'_>, a: &Self, b: &Self, capacity: usize) -> PyResult<Self> {
        py.detach(|| {
            let pattern = gpu::DevicePattern::product(&a.pattern, &b.pattern, capacity).map_err(refused)?;
            let likely = likely(pattern.shape())?;
            Ok(Self { pattern: Arc::new(pattern), likely })
        })
    }

    /// Says that the arrays have changed, or will have when the next launch runs.
    fn changed(&self) {
        self.pattern.changed();
    }

    /// Waits for the GPU, and tells the first wrong block row that a check has found, once.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.pattern.check()).map_err(refused)
    }

    /// The pattern as the last launch has read it, on the host.
    fn download(&self, py: Python<'_>) -> PyResult<Pattern> {
        let structure = py.detach(|| self.pattern.download()).map_err(refused)?;
        Ok(Pattern { fingerprint: Fingerprint::of(&structure), structure })
    }

    /// The same for values of an element type.
    fn sparse(&self, kind: &str) -> PyResult<Sparse> {
        Ok(Sparse { matrix: AnyBsr::of(Places::Gpu(&self.pattern), Kind::parse(kind)?)? })
    }
}

impl DevicePattern {
    /// A pattern that the host knows, in place of the one on the GPU, for the choice of a kernel.
    pub(super) fn likely(&self) -> &Pattern {
        &self.likely
    }
}

/// The plan of a kernel that takes lists which are made on the GPU: of the fastest of those that were looked at.
pub(super) fn plan(chosen: &Choice, epilogue: Option<Epilogue>) -> PyResult<Plan> {
    let with = |spec: KernelSpec| {
        let spec = if spec.pdl == Pdl::Early { spec.pdl(Pdl::On) } else { spec };
        epilogue.map_or(spec, |epilogue| spec.epilogue(epilogue))
    };
    let planned =
        |spec: KernelSpec| Plan::new(&with(spec)).ok().filter(|plan| Launcher::takes_device_pattern(plan).is_ok());
    // Of two sparse factors `bn` is the width of a block.
    let is_same = |spec: &KernelSpec| !spec.op.is_of_pairs() || spec.bn == chosen.spec.bn;
    choice::candidates(chosen).filter(is_same).find_map(planned).ok_or_else(|| {
        refused(format!(
            "no kernel for blocks of {:?} reads a pattern that lives on the GPU\n  help: blocks whose rows (of x @ w, whose \
             columns) are a multiple of 64, or a Pattern of the host",
            (chosen.spec.bm, chosen.spec.bk)
        ))
    })
}

/// A pattern of this shape that is known to the host: with as many blocks as there is room for, at random places.
fn likely(shape: &PatternShape) -> PyResult<Pattern> {
    let all = shape.block_rows() * shape.block_cols();
    let density = shape.capacity.min(MOST) as f64 / all.max(1) as f64;
    let structure = Generator::Random(density.clamp(f64::MIN_POSITIVE, 1.0))
        .structure(shape.rows, shape.cols, shape.block, 1)
        .map_err(refused)?;
    Ok(Pattern { fingerprint: Fingerprint::of(&structure), structure })
}
