//! Kernels on the simulator: the launch that a GPU would be given, run on the CPU by `bsr_simulator`.
//!
//! A kernel of the attribute is multiplied by [`Kernel::simulate`](crate::Kernel::simulate), with the types that it has.
//! [`Simulated`] is any plan and any text:
//!
//! ```
//! use bsr_codegen::{KernelSpec, Plan};
//! use bsr_runtime::simulated::{Options, Simulated};
//! use bsr_runtime::{Bsr, Dense, Layout, Pattern, reference};
//! use half::f16;
//!
//! let plan = Plan::new(&"bm = 64, bn = 32, bk = 32".parse::<KernelSpec>()?)?;
//! let ptx = plan.ptx();
//! let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?;
//!
//! let a = Bsr::<f16>::generate(Pattern::TopK(2), 128, 96, (64, 32), 0)?;
//! let b = Dense::<f16>::normal(96, 40, Layout::RowMajor, 0);
//! let (results, report) = kernel.multiply::<f16, _>((&a, &b), &Options::default())?;
//! assert!(report.is_clean());
//! let error = reference::relative_error(&results.c.to_f64(), &reference::multiply(&a, &b)?);
//! assert!(error < 2e-3, "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod lines;
#[doc(hidden)]
pub mod lists;
mod machine;
mod memory;
mod run;

use std::sync::Arc;

use bsr_codegen::Plan;
pub use bsr_simulator::{
    Cost, Coverage, Finding, FindingKind, Fp8Accumulate, Options, ParseError, Report, Schedule, Side, Statement, Writer,
};

use crate::Element;
use crate::call::arguments::AnyHostArguments;
pub use crate::call::outcome::Values;
use crate::epilogue::Results;
use crate::error::KernelError;
pub use crate::error::SimulatedError;
use crate::launcher::Launcher;
pub(crate) use blocks::Blocks;
use lists::ListKernels;
pub(crate) use machine::Simulator;

/// Clusters that share the work unless [`Simulated::with_clusters`] says otherwise.
pub const DEFAULT_CLUSTERS: u32 = 4;

/// A kernel on the simulator: PTX text, and the plan that it is launched by.
#[derive(Clone, Debug)]
pub struct Simulated(pub(crate) Launcher<Simulator>);

impl Simulated {
    /// Reads PTX: the text of `plan`, or an edited version of it.
    ///
    /// # Errors
    /// Text that is malformed or uses what the simulator does not model, with line and column.
    pub fn new(plan: &Plan, ptx: &str, entry: &str) -> Result<Self, ParseError> {
        Launcher::read(plan, ptx, entry, DEFAULT_CLUSTERS).map(Self)
    }

    /// The same kernel with the work shared by at most `clusters` clusters, at least one. Fewer clusters get longer
    /// lists of tiles each; a GPU runs as many as fit it.
    #[must_use]
    pub fn with_clusters(mut self, clusters: u32) -> Self {
        self.0.machine_mut().clusters = clusters.max(1);
        self
    }

    /// The same kernel with its work listed by kernels, as on a GPU where the pattern lives there
    /// ([`ListKernels::own`]). Of these launches the report has what is wrong with them, and nothing else.
    ///
    /// # Errors
    /// [`KernelError::DevicePattern`] of a kernel that reads no such lists.
    pub fn with_device_pattern(mut self, lists: Arc<ListKernels>) -> Result<Self, KernelError> {
        crate::lists::takes_device_pattern(self.plan())?;
        self.0.machine_mut().lists = Some(lists);
        Ok(self)
    }

    /// The same kernel with the lines of dense operands and of C three gigabytes apart: offsets that a kernel computes in
    /// 32 bits overflow. The simulator holds only the lines themselves.
    #[must_use]
    pub fn with_far_lines(mut self, far: bool) -> Self {
        self.0.machine_mut().far = far;
        self
    }

    /// The plan by which the kernel is launched.
    pub fn plan(&self) -> &Plan {
        self.0.plan()
    }

    /// What the last launch of a [probed](Plan::probed) kernel recorded, of this value or a clone of it; nothing of another
    /// kernel, and before the first launch.
    pub fn records(&self) -> Option<Vec<u32>> {
        self.0.machine().records.last()
    }

    /// The instructions of the kernel, each with whether the runs that `coverage` was merged of have executed it.
    pub fn statements(&self, coverage: &Coverage) -> Vec<(Statement, bool)> {
        self.0.statements(coverage)
    }

    /// Multiplies as [`Launcher::launch`](crate::Launcher::launch) does on a GPU: `(&a, &b)` of a [`Bsr`](crate::Bsr) and a
    /// [`Dense`](crate::Dense), or the other way round for `op = dds`; `(&a, &b, further)` where the kernel reads
    /// [more](crate::kernel::arguments); `(&a, &b, &pattern)` and `(&a, &b, &pattern, further)` for `op = sdd`, whose result is
    /// the values of the pattern's blocks. The element type of C is the parameter. The second result is that of an
    /// epilogue which has one.
    ///
    /// C is full of [`Element::POISON`] before: what the kernel does not write stays so, padding between the lines and
    /// blocks beyond the edge included. It holds what an operand of the epilogue says that is given C itself, and a kernel
    /// that adds to C with `accumulate = atomic` finds zeros in it, as on a GPU. An empty C is nothing to launch, and the
    /// report is empty. Where CTAs pass on partial sums through a workspace, the kernel is launched twice, and the second launch finds it as the
    /// first one left it.
    ///
    /// # Errors
    /// [`SimulatedError::Kernel`] for a kernel of another operation, and for blocks, shapes, element types, layouts, scales or
    /// operands that do not fit the kernel; [`SimulatedError::Launch`] for PTX that is not the plan's kernel.
    pub fn multiply<'h, C: Element, I: AnyHostArguments<'h>>(
        &self,
        inputs: I,
        options: &Options,
    ) -> Result<(Results<I::Values<C>>, Report), SimulatedError> {
        let (Results { c, rows }, report) = self.0.product(&inputs.untyped(self.plan().spec().op), options)?;
        Ok((Results { c: I::Values::of(c)?, rows }, report))
    }

    /// Multiplies a list of products in one launch, as [`Batch`](crate::kernel::Batch) does on a GPU; each of them as in
    /// [`Simulated::multiply`], without further operands. They may share factors.
    ///
    /// # Errors
    /// [`KernelError::Batch`] of a kernel for one product a launch; [`KernelError::Problem`] with the number of a problem
    /// that does not fit the kernel.
    pub fn multiply_batch<'h, C: Element, I: AnyHostArguments<'h>>(
        &self,
        problems: impl IntoIterator<Item = I>,
        options: &Options,
    ) -> Result<(Vec<I::Values<C>>, Report), SimulatedError> {
        if !self.plan().spec().batch.is_on() {
            return Err(KernelError::Batch { batch: false }.into());
        }
        let calls: Vec<_> = problems.into_iter().map(|inputs| inputs.untyped(self.plan().spec().op)).collect();
        let (results, report) = self.0.products(&calls, options)?;
        Ok((results.into_iter().map(I::Values::of).collect::<Result<_, _>>()?, report))
    }
}
