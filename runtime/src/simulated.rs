//! Kernels on the simulator: the launch that a GPU would be given, run on the CPU by `bsr_simulator`.
//!
//! ```
//! use bsr_codegen::{Arch, KernelSpec, Plan};
//! use bsr_runtime::simulated::{Options, Simulated};
//! use bsr_runtime::{Bsr, Dense, Layout, Pattern, reference};
//! use half::f16;
//!
//! let plan = Plan::new(&"bm = 64, bn = 32, bk = 32".parse::<KernelSpec>()?, &Arch::SM_90A)?;
//! let ptx = plan.ptx();
//! let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?;
//!
//! let a = Bsr::<f16>::generate(Pattern::TopK(2), 128, 96, (64, 32), 0)?;
//! let b = Dense::<f16>::normal(96, 40, Layout::RowMajor, 0);
//! let (c, report) = kernel.multiply::<f16, f16, f16>(&a, &b, &Options::default())?;
//! assert!(report.is_clean());
//! let error = reference::relative_error(&c.to_f64(), &reference::multiply(&a, &b)?);
//! assert!(error < 2e-3, "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::borrow::Cow;

use bsr_codegen::{LaunchShape, Plan, Problem, TensorMap};
use bsr_simulator::{
    BufferId, GlobalMemory, Launch, LaunchError, Module, Param, Swizzle, TensorElement, TensorMapDesc, parse, simulate,
};
pub use bsr_simulator::{Cost, Finding, FindingKind, Options, ParseError, Report, Schedule, Side};

use crate::kernel::{KernelError, fit};
use crate::schedule::WorkPlan;
use crate::{Bsr, Dense, Dtype, Element, Structure};

/// Clusters that share the work unless [`Simulated::with_clusters`] says otherwise.
pub const DEFAULT_CLUSTERS: u32 = 4;
/// Alignment of every buffer in bytes, as `cudaMalloc` gives it.
const ALIGN: u64 = 256;

/// Why a multiplication could not be simulated. What the kernel does wrong is no error: see [`Report::findings`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulatedError {
    /// The operands do not fit the kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The PTX does not take the plan's launch: it has another entry, or other parameters or directives.
    #[error(
        "the PTX does not take its plan's launch: {0}\n  help: PTX that `bsr emit` wrote for the same spec takes it"
    )]
    Launch(#[from] LaunchError),
}

/// A kernel on the simulator: PTX text, and the plan that it is launched by.
#[derive(Clone, Debug)]
pub struct Simulated {
    plan: Plan,
    module: Module,
    entry: String,
    clusters: u32,
}

impl Simulated {
    /// Reads PTX: the text of `plan`, or what somebody has made of it.
    ///
    /// # Errors
    /// Text that is malformed or uses what the simulator does not model, with line and column.
    pub fn new(plan: &Plan, ptx: &str, entry: &str) -> Result<Self, ParseError> {
        Ok(Self { plan: plan.clone(), module: parse(ptx)?, entry: entry.to_owned(), clusters: DEFAULT_CLUSTERS })
    }

    /// The same kernel with the work shared by at most `clusters` clusters, at least one. Fewer clusters walk longer
    /// lists of tiles each; a GPU runs as many as fit it.
    #[must_use]
    pub fn with_clusters(self, clusters: u32) -> Self {
        Self { clusters: clusters.max(1), ..self }
    }

    /// The plan by which the kernel is launched.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Multiplies C = A * B as [`Launcher::launch`](crate::Launcher::launch) does on a GPU, into a C full of NaN:
    /// what the kernel does not write stays NaN. An empty C is nothing to launch, and the report is empty.
    ///
    /// # Errors
    /// [`SimulatedError::Kernel`] for blocks, shapes, element types or layouts that do not fit the kernel;
    /// [`SimulatedError::Launch`] for PTX that is not the plan's kernel.
    pub fn multiply<A: Element, B: Element, C: Element>(
        &self,
        a: &Bsr<A>,
        b: &Dense<B>,
        options: &Options,
    ) -> Result<(Dense<C>, Report), SimulatedError> {
        let layout = self.plan.spec().c_layout;
        let mut c = Dense::filled(a.rows(), b.cols(), layout, C::from_f64(f64::NAN));
        let right = fit::Operand { dtype: B::DTYPE, layout: b.layout(), rows: b.rows(), cols: b.cols() };
        let product = fit::Operand { dtype: C::DTYPE, layout, rows: c.rows(), cols: c.cols() };
        fit::operands(&self.plan, (A::DTYPE, a.structure()), &right, &product)?;
        if c.rows() == 0 || c.cols() == 0 {
            return Ok((c, Report::default()));
        }
        let b = padded(b);
        let work = WorkPlan::new(&self.plan, a.structure(), b.cols(), self.clusters);
        let shape = self.plan.launch(&problem(a.structure(), &b, &c), work.clusters());

        let mut memory = GlobalMemory::new();
        let id_c = memory.upload(C::to_bytes(c.data()), ALIGN);
        // Without stored blocks nothing is read: any valid address serves as A and B.
        let bases = if a.nnzb() == 0 {
            [id_c; 3]
        } else {
            let id_a = memory.upload(A::to_bytes(a.values()), ALIGN);
            [id_a, memory.upload(B::to_bytes(b.data()), ALIGN), id_c]
        };
        let columns: Vec<u32> = a.col_idx().iter().map(|column| column.cast_unsigned()).collect();
        let words = [columns, work.heads(a.structure()), work.words()];
        let mut params: Vec<Param> =
            shape.maps.iter().zip(bases).map(|(map, base)| Param::TensorMap(describe(map, base))).collect();
        params.extend(words.map(|words| Param::Buffer(upload(&mut memory, &words))));

        let report = simulate(&self.module, &self.entry, &launch(&shape, params), &mut memory, options)?;
        c.data_mut().copy_from_slice(&C::from_bytes(memory.bytes(id_c)));
        Ok((c, report))
    }
}

/// A matrix whose lines start on 16-byte boundaries, as tensor copies want them.
fn padded<T: Element>(b: &Dense<T>) -> Cow<'_, Dense<T>> {
    match (b.ld() * size_of::<T>()).is_multiple_of(16) {
        true => Cow::Borrowed(b),
        false => Cow::Owned(b.to_layout(b.layout())),
    }
}

fn problem<B: Element, C: Element>(a: &Structure, b: &Dense<B>, c: &Dense<C>) -> Problem {
    Problem {
        m: a.rows() as u64,
        n: b.cols() as u64,
        k: a.cols() as u64,
        nnzb: a.nnzb() as u64,
        ldb: b.ld() as u64,
        ldc: c.ld() as u64,
    }
}

fn launch(shape: &LaunchShape, params: Vec<Param>) -> Launch {
    Launch {
        grid: [shape.grid, 1, 1],
        cluster: [shape.cluster, 1, 1],
        block: [shape.block, 1, 1],
        shared_bytes: shape.shared_bytes,
        params,
    }
}

/// A buffer of 32-bit words; of some bytes even without words, so that it has an address.
fn upload(memory: &mut GlobalMemory, words: &[u32]) -> BufferId {
    match words {
        [] => memory.alloc(16, ALIGN),
        words => memory.upload(words.iter().flat_map(|word| word.to_le_bytes()).collect(), ALIGN),
    }
}

fn describe(map: &TensorMap, buffer: BufferId) -> TensorMapDesc {
    let element = match map.dtype {
        Dtype::F16 => TensorElement::F16,
        Dtype::BF16 => TensorElement::Bf16,
        Dtype::F32 => TensorElement::F32,
    };
    let swizzle = match map.swizzle_bytes {
        32 => Swizzle::B32,
        64 => Swizzle::B64,
        128 => Swizzle::B128,
        _ => Swizzle::None,
    };
    TensorMapDesc::matrix(buffer, element, map.dims, map.row_stride_bytes, map.box_dims, swizzle)
}
