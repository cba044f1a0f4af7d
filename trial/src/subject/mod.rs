//! What is computed, whatever the operation: a product, an SDDMM or an attention.

mod attention;
mod product;

use std::rc::Rc;

use bsr_codegen::{KernelSpec, Op, Plan};
use bsr_runtime::Structure;
use bsr_runtime::gpu::Device;
use bsr_runtime::read::FillIn;

use crate::Failure;
use crate::gpu::{OnDevice, Steps};
use crate::kinds::Trial;
use crate::problem::DrawnProblem;
use crate::request::{Defaults, Request};
use crate::verify::RowChoice;
use crate::workload::Workload;
pub use attention::AttentionSubject;

/// A problem of one operation, before blocks, types and values are chosen.
pub trait Subject {
    /// The problem of a kernel in words. Makes sure that it exists, and fits this machine's memory.
    ///
    /// # Errors
    /// Bad input: a problem that does not exist in the kernel's blocks, with the arithmetic.
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure>;

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
}

/// The problem that is requested of a kernel's operation.
///
/// # Errors
/// Bad input: flags of another operation, a file that cannot be read.
pub fn requested(request: &Request, defaults: Defaults, spec: &KernelSpec) -> Result<Rc<dyn Subject>, Failure> {
    Ok(match spec.op {
        Op::Attention => Rc::new(AttentionSubject::new(request, defaults, spec)?),
        _ => Rc::new(DrawnProblem::new(request, defaults, (spec.bm as usize, spec.bk as usize))?),
    })
}

/// The problem that a workload describes.
///
/// # Errors
/// Bad input: words that name no pattern, a file that cannot be read, a matrix of another program.
pub fn of_workload(workload: &Workload) -> Result<Rc<dyn Subject>, Failure> {
    Ok(match workload.facts.is_attention() {
        true => Rc::new(AttentionSubject::of(workload.clone())),
        false => Rc::new(DrawnProblem::of_workload(workload)?),
    })
}
