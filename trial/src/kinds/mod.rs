//! The problems of a check: small, each of a kind that kernels get wrong, and sized by the kernel's plan.

mod product;

use std::sync::Arc;

use bsr_runtime::simulated::Options;
use bsr_runtime::simulated::lists::ListKernels;

use crate::Failure;
use crate::simulate::{Drawn, SimulatedKernel};
use crate::verify::RowChoice;
pub(crate) use product::{Draw, Member, Of, ProductTrial};

/// Multiplications and additions of one problem that may be done in all of its schedules together.
pub(crate) const EFFORT: u64 = 2 << 30;

/// A problem that a kernel is checked on.
pub trait Trial: Send + Sync {
    /// Its kind: the label of a line.
    fn name(&self) -> &'static str;

    /// The problem in words.
    fn words(&self) -> String;

    /// Whether kernels list the work, as of a pattern or a mask on a GPU.
    fn is_listed(&self) -> bool;

    /// Whether it is an ordinary problem of several blocks: not of one column, or of lines that are far apart.
    fn has_several_blocks(&self) -> bool;

    /// Roughly how long a run takes, in multiplications and additions.
    fn effort(&self) -> u64;

    /// Those of the schedules that the effort allows, one at least.
    fn schedules(&self, all: &[Options]) -> Vec<Options>;

    /// What the kernels that list the work of this problem list wrongly, in words.
    ///
    /// # Errors
    /// Those of the simulator.
    fn fault_of_lists(&self, _lists: &ListKernels) -> Result<Option<String>, Failure> {
        Ok(None)
    }

    /// The kernel with the clusters, lines and lists of this problem.
    ///
    /// # Errors
    /// Bad input: a kernel of another operation.
    fn prepare(&self, kernel: &SimulatedKernel, lists: &Arc<ListKernels>) -> Result<SimulatedKernel, Failure>;

    /// Draws the values, and computes what the results must be.
    ///
    /// # Errors
    /// Bad input: a problem that does not exist.
    fn draw(&self, rows: RowChoice) -> Result<Box<dyn Drawn>, Failure>;

    /// Roughly how long its schedules take.
    fn all_effort(&self, all: &[Options]) -> u64 {
        self.effort().saturating_mul(self.schedules(all).len() as u64)
    }
}
