//! What is computed, whatever the operation. Each operation is a file or a folder here, which only `registry` names.

pub mod attention;
mod product;
mod registry;
mod sddmm;
mod spgemm;

use std::rc::Rc;

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::Structure;
use bsr_runtime::gpu::Device;
use bsr_runtime::read::FillIn;

use crate::Failure;
use crate::gpu::{OnDevice, Steps};
use crate::kinds::Trial;
use crate::request::{Defaults, Request};
use crate::verify::RowChoice;
use crate::workload::Workload;
pub use registry::{of_workload, requested, trials};

/// A problem of one operation, before blocks, types and values are chosen.
pub trait Subject {
    /// The problem of a kernel in words. Makes sure that it exists, and fits this machine's memory.
    ///
    /// # Errors
    /// Bad input: a problem that does not exist in the kernel's blocks, with the arithmetic.
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure>;

    /// Where the pattern of a kernel is from: `topk:4`, `weights.npz (rows reordered)`.
    fn source(&self, spec: &KernelSpec) -> String;

    /// The problem of a kernel, so that another process can draw it again.
    fn workload(&self, spec: &KernelSpec) -> Workload;

    /// The problem of a kernel for the simulator. `shrinks` makes numbers smaller where an epilogue's functions would saturate.
    ///
    /// # Errors
    /// As [`Subject::about`].
    fn trial(&self, plan: &Plan, shrinks: bool) -> Result<Box<dyn Trial>, Failure>;

    /// The problem on a GPU, of which so many rows are compared.
    fn on(self: Rc<Self>, device: &Device, rows: RowChoice, steps: &Steps) -> Box<dyn OnDevice>;
}

/// A problem of a kernel in words and numbers.
#[derive(Clone, Debug)]
pub struct About {
    /// What is computed: `C[1024, 512] = A[1024, 1120] * B[1120, 512]`.
    pub problem: String,
    /// What is sparse: `A`, `B`, `C` or `mask`.
    pub name: &'static str,
    /// How it is sparse: `8 of 20 blocks of 512 x 112 stored (40.0 %), topk:4, seed 0`.
    pub sparse: String,
    /// The stored blocks.
    pub structure: Structure,
    /// What the blocking of a file costs.
    pub fill_in: Option<FillIn>,
    /// Products of one launch.
    pub products: usize,
    /// Operations on stored blocks of one launch.
    pub flops: u64,
    /// Whether a dense library computes the same from dense operands.
    pub has_dense: bool,
}

/// What trials need of an operation.
trait Operation: Sync {
    /// The problem that is requested of a kernel.
    fn subject_of_request(
        &self,
        request: &Request,
        defaults: Defaults,
        spec: &KernelSpec,
    ) -> Result<Rc<dyn Subject>, Failure>;

    /// The problem that a workload describes.
    fn subject_of_workload(&self, workload: &Workload) -> Result<Rc<dyn Subject>, Failure>;

    /// Problems of every kind that a kernel has; `count` of them if it is given.
    fn kinds(&self, plan: &Plan, seed: u64, count: Option<usize>) -> Result<Vec<Box<dyn Trial>>, Failure>;
}
