//! The kernels that list work on a GPU, on the simulator: what they make of a pattern, one launch after the other in one
//! memory, as a stream has them.

mod pairs;
mod patterns;
mod sddmm;
mod work;

use std::sync::{Arc, OnceLock};

use bsr_codegen::Plan;
use bsr_codegen::lists::{IndexWidth, ListKernel, ListRequest, Shape, SharedLists, SplitLists, WrongIndex, ptx};
use bsr_simulator::{
    BufferId, Finding, GlobalMemory, Launch, LaunchError, Module, Options, Param, ParseError, parse, simulate,
};

use crate::Structure;
use crate::machine::upload;

pub use pairs::faults_of_pairs;
pub use patterns::{CheckedPattern, faults_of_checks, faults_of_lists, meant};
pub(super) use work::SPARE;
pub use work::SharedWork;

/// The module of these kernels.
#[derive(Clone, Debug)]
pub struct ListKernels {
    module: Module,
    max_steps: u64,
}

impl ListKernels {
    /// Reads an edited version of [`ptx`].
    ///
    /// # Errors
    /// Text that is malformed or uses what the simulator does not model, with line and column.
    pub fn new(text: &str) -> Result<Self, ParseError> {
        Ok(Self { module: parse(text)?, max_steps: Options::default().max_steps })
    }

    /// The same kernels, stopped after so many warp instructions.
    #[must_use]
    pub fn limited(self, max_steps: u64) -> Self {
        Self { max_steps, ..self }
    }

    /// Those that a GPU is given.
    ///
    /// # Errors
    /// None, as long as the simulator models what they use.
    pub fn own() -> Result<Arc<Self>, ParseError> {
        static OWN: OnceLock<Arc<ListKernels>> = OnceLock::new();
        match OWN.get() {
            Some(own) => Ok(Arc::clone(own)),
            None => Self::new(ptx()).map(|own| Arc::clone(OWN.get_or_init(|| Arc::new(own)))),
        }
    }

    /// Launches one of them.
    ///
    /// # Errors
    /// A module without it, or with other parameters.
    pub fn launch(
        &self,
        memory: &mut GlobalMemory,
        kernel: ListKernel,
        (grid, shared_bytes): (u32, u32),
        pointers: &[BufferId],
        numbers: &[u32],
    ) -> Result<Vec<Finding>, LaunchError> {
        let params = pointers.iter().map(|id| Param::Buffer(*id)).chain(numbers.iter().map(|at| Param::U32(*at)));
        let launch = Launch {
            grid: [grid, kernel.grid_rows(), 1],
            cluster: [1; 3],
            block: [kernel.threads(), 1, 1],
            shared_bytes,
            params: params.collect(),
        };
        let options = Options { dependent: true, max_steps: self.max_steps, ..Options::default() };
        Ok(simulate(&self.module, kernel.entry(), &launch, memory, &options)?.findings)
    }
}

/// Launches in one memory, of which none follows a finding.
#[derive(Debug)]
pub struct Stream<'s> {
    kernels: &'s ListKernels,
    memory: &'s mut GlobalMemory,
    findings: Vec<Finding>,
}

impl<'s> Stream<'s> {
    /// A stream without launches.
    pub fn new(kernels: &'s ListKernels, memory: &'s mut GlobalMemory) -> Self {
        Self { kernels, memory, findings: vec![] }
    }

    /// What is wrong with the launches.
    pub fn findings(self) -> Vec<Finding> {
        self.findings
    }

    /// Launches a kernel on `pointers` and `numbers`, in the order of its parameters.
    ///
    /// # Errors
    /// As [`ListKernels::launch`].
    pub fn launch(
        &mut self,
        kernel: ListKernel,
        grid: (u32, u32),
        pointers: &[BufferId],
        numbers: &[u32],
    ) -> Result<(), LaunchError> {
        if self.findings.is_empty() {
            self.findings = self.kernels.launch(self.memory, kernel, grid, pointers, numbers)?;
        }
        Ok(())
    }

    fn upload(&mut self, words: impl IntoIterator<Item = u32>) -> BufferId {
        upload(self.memory, words.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    /// Memory of words that no kernel writes, as what was there before may be anything.
    fn alloc(&mut self, words: usize) -> BufferId {
        self.upload(vec![u32::MAX; words.max(4)])
    }

    /// Launches the kernels that make the transposed index, in `ctas` CTAs: there is a line of counts for each, and one more.
    ///
    /// # Errors
    /// As [`ListKernels::launch`].
    pub fn transpose(
        &mut self,
        pointers: [BufferId; 6],
        [block_rows, block_columns, capacity]: [u32; 3],
        ctas: u32,
    ) -> Result<(), LaunchError> {
        let [rows, columns, counts, ..] = pointers;
        let by_rows = [block_rows, block_columns, block_rows.div_ceil(ctas)];
        let [count, scan, scatter] = [ListKernel::CountColumns, ListKernel::ScanColumns, ListKernel::ScatterColumns];
        let bytes = |kernel: ListKernel| kernel.column_bytes(block_columns);
        self.launch(count, (ctas, bytes(count)), &[rows, columns, counts], &by_rows)?;
        self.launch(scan, (scan.grid(block_columns, 1), bytes(scan)), &[counts], &[block_columns, ctas])?;
        let numbers = [by_rows[0], by_rows[1], by_rows[2], capacity];
        self.launch(scatter, (ctas, bytes(scatter)), &pointers, &numbers)
    }
}

/// What the lists of a plan on a pattern are asked for.
pub fn request(plan: &Plan, structure: &Structure, n: usize, clusters: u32) -> ListRequest {
    let sizes = (structure.rows(), structure.cols());
    crate::lists::request(plan, sizes, structure.block(), structure.stored(), (n, clusters))
}
