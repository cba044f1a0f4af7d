//! A kernel on a machine and its launches: one launcher for GPUs and the simulator.

mod batch;
mod cache;
mod free;
mod gpu;
mod listed;
mod memory;
mod pairs;
mod products;
mod workspaces;

use std::fmt::Debug;

use bsr_codegen::Plan;

use crate::error::KernelError;
use crate::gpu::Stored;
use crate::machine::{Session, Work};
use crate::operation::{self, Matrices};
use crate::schedule::BatchLists;
pub use batch::{Batch, PreparedBatch};
pub(crate) use gpu::Gpu;
pub(crate) use gpu::UploadedWork;
pub(crate) use listed::Listed;
pub(crate) use workspaces::Workspaces;

/// A machine with a kernel on it, and the work that it keeps between launches.
pub(crate) trait Machine: Debug {
    /// Where something is in its memory.
    type Address: Copy + Debug;
    /// Why it refuses a launch.
    type Error: From<KernelError>;
    /// What a launch runs in.
    type Session<'l>: Session<Address = Self::Address, Error = Self::Error>;
    /// A block-sparse matrix in its memory.
    type Blocks<'m>: Stored<Address = Self::Address>;

    /// Clusters that run at the same time.
    fn clusters(&self) -> u32;

    /// Whether operands that fit the kernel are in memory where it can read and write them.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self, plan: &Plan, operands: &Matrices<'_, Self::Address>) -> Result<(), KernelError>;

    /// The lists of the work on the patterns of a launch: clusters and where the lists are.
    ///
    /// # Errors
    /// Those of an allocation, and of the kernels that make lists.
    fn lists(
        &self,
        session: &mut Self::Session<'_>,
        plan: &Plan,
        of: operation::Listed<'_, Self::Blocks<'_>>,
    ) -> Result<Work<Self::Address>, Self::Error>;
}

/// A kernel on a machine, a GPU unless it is said otherwise, and the work plans of the patterns that it has been launched
/// with.
#[derive(Clone, Debug)]
pub struct Launcher<M = Gpu> {
    plan: Plan,
    machine: M,
}

impl<M> Launcher<M> {
    /// The plan by which the kernel is launched.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn new(plan: Plan, machine: M) -> Self {
        Self { plan, machine }
    }

    pub(crate) fn machine(&self) -> &M {
        &self.machine
    }

    pub(crate) fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }
}

// All of these are the crate's own.
#[allow(private_bounds)]
impl<M: Machine> Launcher<M> {
    /// Launches an operation, with the work of the patterns `of` its matrices.
    ///
    /// # Errors
    /// Operands that do not fit, and those of the machine.
    ///
    /// # Safety
    /// The session must be of this machine, and the operands alive until the kernel is done, with nothing else using what it
    /// writes.
    pub(crate) unsafe fn enqueue(
        &self,
        session: &mut M::Session<'_>,
        operands: &Matrices<'_, M::Address>,
        of: operation::Listed<'_, M::Blocks<'_>>,
    ) -> Result<(), M::Error> {
        self.check(operands)?;
        let plan = &self.plan;
        // SAFETY: the kernel is the plan's, and the check above has found the operands to fit it; the lists are made of their
        // patterns, for their extent.
        unsafe { operation::launch(session, plan, operands, |session| self.machine.lists(session, plan, of)) }
    }

    /// Whether operands fit the kernel and each other, and are in memory where it can use them.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self, operands: &Matrices<'_, M::Address>) -> Result<(), KernelError> {
        operands.check(&self.plan)?;
        self.machine.check(&self.plan, operands)
    }

    /// The lists of a batch, of problems that fit the kernel.
    ///
    /// # Errors
    /// [`KernelError::TooLarge`] for more than the kernel counts.
    pub(crate) fn batch_lists(&self, problems: &[&Matrices<'_, M::Address>]) -> Result<BatchLists, KernelError> {
        let patterns: Vec<_> = problems.iter().map(|problem| problem.pattern(&self.plan)).collect();
        operation::check_batch(&self.plan, &patterns)?;
        Ok(BatchLists::new(&self.plan, &patterns, self.machine.clusters()))
    }
}
