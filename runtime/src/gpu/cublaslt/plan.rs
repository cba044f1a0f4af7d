//! One dense product with the algorithms the library proposes for it.

use std::ffi::c_void;

use cudarc::cublaslt::result;
use cudarc::cublaslt::sys::{
    self, cublasLtMatmulAlgo_t, cublasLtMatmulAlgoConfigAttributes_t as Config, cublasLtMatmulHeuristicResult_t,
    cublasStatus_t,
};

use bsr_codegen::Dtype;

use super::descriptors::{MatmulOperation, MatrixLayout, Preference, named};
use super::problem::DenseProblem;
use super::{CublasLt, CublasLtHandle};
use crate::gpu::{DevicePtr, GpuError, StreamRef};

/// A dense product, ready to be launched with any of several algorithms.
#[derive(Debug)]
pub struct DensePlan {
    library: CublasLt,
    problem: DenseProblem,
    swapped: bool,
    operation: MatmulOperation,
    first: MatrixLayout,
    second: MatrixLayout,
    /// The C that is added with factor 0: a type that the library has for it, which e4m3 is not.
    addend: MatrixLayout,
    out: MatrixLayout,
    algorithms: Vec<cublasLtMatmulAlgo_t>,
    selected: usize,
}

// SAFETY: the descriptors are plain memory of the library, only read after `new`; see also `CublasLtHandle`.
unsafe impl Send for DensePlan {}

impl DensePlan {
    /// Algorithms asked for.
    const MOST_ALGORITHMS: usize = 8;

    pub(super) fn new(library: &CublasLt, problem: &DenseProblem) -> Result<Self, GpuError> {
        problem.validate()?;
        library.device().bind()?;
        let mapped = problem.mapped();
        let [a, b, c] = problem.types;
        let (first, second) = if mapped.swapped { (b, a) } else { (a, b) };
        let mut plan = Self {
            library: library.clone(),
            problem: *problem,
            swapped: mapped.swapped,
            operation: MatmulOperation::new(problem, &mapped, library.inner.one.ptr())?,
            first: MatrixLayout::new(&mapped.first, first)?,
            second: MatrixLayout::new(&mapped.second, second)?,
            addend: MatrixLayout::new(&mapped.out, if c.is_fp8() { Dtype::BF16 } else { c })?,
            out: MatrixLayout::new(&mapped.out, c)?,
            algorithms: Vec::new(),
            selected: 0,
        };
        plan.algorithms = plan.ask_heuristic()?;
        Ok(plan)
    }

    fn ask_heuristic(&self) -> Result<Vec<cublasLtMatmulAlgo_t>, GpuError> {
        let preference = Preference::new(CublasLt::WORKSPACE_BYTES)?;
        let empty = cublasLtMatmulHeuristicResult_t {
            algo: cublasLtMatmulAlgo_t { data: [0; 8] },
            workspaceSize: 0,
            state: cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED,
            wavesCount: 0.0,
            reserved: [0; 4],
        };
        let mut found = [empty; Self::MOST_ALGORITHMS];
        let mut count = 0;
        // SAFETY: all descriptors are alive; `found` has room for as many results as are asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle().raw,
                self.operation.0,
                self.first.0,
                self.second.0,
                self.addend.0,
                self.out.0,
                preference.0,
                found.len() as i32,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        let nothing = || {
            GpuError::DenseProblem {
            problem: self.problem.to_string(),
            why: match self.problem.types[0].bytes() {
                1 => "the library proposes no algorithm\n  help: it wants lines of 8-bit matrices, and of C, to be multiples of 16 bytes".into(),
                _ => "the library proposes no algorithm".into(),
            },
        }
        };
        if status == cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
            return Err(nothing());
        }
        status.result().map_err(named("cublasLtMatmulAlgoGetHeuristic"))?;
        let algorithms: Vec<_> = found
            .iter()
            .take(usize::try_from(count).unwrap_or(0))
            .filter(|result| result.state == cublasStatus_t::CUBLAS_STATUS_SUCCESS)
            .filter(|result| result.workspaceSize <= CublasLt::WORKSPACE_BYTES)
            .map(|result| result.algo)
            .collect();
        if algorithms.is_empty() { Err(nothing()) } else { Ok(algorithms) }
    }

    /// The product.
    pub fn problem(&self) -> &DenseProblem {
        &self.problem
    }

    /// How many algorithms there are, at least 1 and at most 8.
    pub fn algorithms(&self) -> usize {
        self.algorithms.len()
    }

    /// The algorithm that [`DensePlan::launch`] uses.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// Makes [`DensePlan::launch`] use algorithm `index`; one that does not exist leaves the choice as it is.
    pub fn select(&mut self, index: usize) {
        if index < self.algorithms.len() {
            self.selected = index;
        }
    }

    /// Algorithm `index` in the library's numbers: `id 66, tile 20, stages 36, cluster 3, split_k 1`. Empty
    /// if there is none.
    pub fn algorithm_name(&self, index: usize) -> String {
        let Some(algorithm) = self.algorithms.get(index) else {
            return String::new();
        };
        let numbers = [
            ("id", Config::CUBLASLT_ALGO_CONFIG_ID, 4),
            ("tile", Config::CUBLASLT_ALGO_CONFIG_TILE_ID, 4),
            ("stages", Config::CUBLASLT_ALGO_CONFIG_STAGES_ID, 4),
            ("cluster", Config::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2),
            ("split_k", Config::CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4),
        ];
        let words: Vec<_> = numbers
            .into_iter()
            .filter_map(|(name, which, size)| Some(format!("{name} {}", config_number(algorithm, which, size)?)))
            .collect();
        words.join(", ")
    }

    /// Enqueues the product with the selected algorithm. Allocates nothing and does not wait.
    ///
    /// # Errors
    /// [`GpuError::CublasLt`] if the library refuses.
    ///
    /// # Safety
    /// `a`, `b`, `c` must be device memory of the plan's device, aligned to 256 bytes (as
    /// [`crate::gpu::DeviceBuffer`] is), of the sizes and leading dimensions of the problem, alive until the
    /// product is done, `c` used by nothing else meanwhile. All plans of one [`CublasLt`] share its workspace:
    /// their launches must be ordered, for instance by using one stream.
    pub unsafe fn launch(
        &self,
        stream: StreamRef<'_>,
        a: DevicePtr,
        b: DevicePtr,
        c: DevicePtr,
    ) -> Result<(), GpuError> {
        // SAFETY: the caller's word.
        unsafe { self.launch_algorithm(self.selected, stream, a, b, c) }
    }

    /// Enqueues the product with algorithm `index`, or with the selected one if there is no such.
    ///
    /// # Errors
    /// As [`DensePlan::launch`].
    ///
    /// # Safety
    /// As [`DensePlan::launch`].
    pub unsafe fn launch_algorithm(
        &self,
        index: usize,
        stream: StreamRef<'_>,
        a: DevicePtr,
        b: DevicePtr,
        c: DevicePtr,
    ) -> Result<(), GpuError> {
        let algorithm = self.algorithms.get(index).unwrap_or(&self.algorithms[self.selected]);
        let (first, second) = if self.swapped { (b, a) } else { (a, b) };
        let address = |ptr: DevicePtr| std::ptr::without_provenance_mut::<c_void>(ptr as usize);
        // 1 and 0 in the type of the scaling, of 32 bits or of 64 (the order of bytes is that of CUDA's hosts, little-endian).
        let one = match self.problem.types[0] {
            Dtype::I8 | Dtype::I32 => 1,
            Dtype::F64 => 1.0_f64.to_bits(),
            _ => u64::from(1.0_f32.to_bits()),
        };
        let zero = 0_u64;
        // Of another type than C's memory, the addend has none; it is not read.
        let addend = if self.problem.types[2].is_fp8() { std::ptr::null_mut() } else { address(c) };
        self.library.device().bind()?;
        // SAFETY: descriptors, handle, workspace and algorithm are alive and made for each other; the scales
        // are numbers on the host, read before the call returns; the caller vouches for the matrices.
        unsafe {
            result::matmul(
                self.handle().raw,
                self.operation.0,
                std::ptr::from_ref(&one).cast(),
                std::ptr::from_ref(&zero).cast(),
                address(first),
                self.first.0,
                address(second),
                self.second.0,
                addend,
                self.addend.0,
                address(c),
                self.out.0,
                algorithm,
                address(self.handle().workspace.ptr()),
                CublasLt::WORKSPACE_BYTES,
                stream.raw().cast(),
            )
        }
        .map_err(named("cublasLtMatmul"))
    }

    fn handle(&self) -> &CublasLtHandle {
        &self.library.inner
    }
}

/// One number of an algorithm's configuration, of 2 or 4 bytes.
fn config_number(algorithm: &cublasLtMatmulAlgo_t, which: Config, size: usize) -> Option<u32> {
    let mut bytes = [0_u8; 4];
    let mut written = 0;
    // SAFETY: the algorithm came from the heuristic; `bytes` has room for `size` <= 4 bytes.
    let status = unsafe {
        sys::cublasLtMatmulAlgoConfigGetAttribute(algorithm, which, bytes.as_mut_ptr().cast(), size, &mut written)
    };
    (status == cublasStatus_t::CUBLAS_STATUS_SUCCESS).then(|| u32::from_le_bytes(bytes))
}
