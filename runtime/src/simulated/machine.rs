//! A kernel on the simulator, of any operation.

use std::sync::Arc;

use bsr_codegen::{Pdl, Plan};
use bsr_simulator::{BufferId, Coverage, Module, Options, ParseError, Statement, parse};

use super::blocks::Blocks;
use super::lists::{ListKernels, Stream};
use crate::bsr::Pairs;
use crate::error::{KernelError, SimulatedError};
use crate::gpu::Stored;
use crate::launcher::{Launcher, Machine};
use crate::machine::{Lists, Sim, Work};
use crate::operation::{Listed, Matrices};
use crate::schedule::WorkLists;
use crate::timeline::Records;

/// A kernel on the simulator.
#[derive(Clone, Debug)]
pub(crate) struct Simulator {
    module: Module,
    entry: String,
    pub(crate) clusters: u32,
    /// Lines of operands are gigabytes apart.
    pub(super) far: bool,
    /// The kernels that list the work, if the host does not.
    pub(crate) lists: Option<Arc<ListKernels>>,
    pub(crate) records: Records,
}

impl Launcher<Simulator> {
    /// Reads the PTX of a kernel, whose work so many clusters share.
    ///
    /// # Errors
    /// PTX that the simulator does not take.
    pub(crate) fn read(plan: &Plan, ptx: &str, entry: &str, clusters: u32) -> Result<Self, ParseError> {
        let (module, entry, records) = (parse(ptx)?, entry.to_owned(), Records::default());
        Ok(Self::new(plan.clone(), Simulator { module, entry, clusters, far: false, lists: None, records }))
    }

    /// The simulator with this kernel, and an empty memory.
    pub(crate) fn session(&self, options: &Options) -> Sim<'_> {
        let Simulator { module, entry, .. } = self.machine();
        // A kernel with `griddepcontrol` begins while an earlier kernel may still be writing every buffer.
        let dependent = options.dependent || module.uses_griddepcontrol(entry);
        Sim::new((module, entry), self.plan(), Options { dependent, ..options.clone() })
    }

    /// The instructions of the kernel, each with whether the runs that `coverage` was merged of have executed it.
    pub(crate) fn statements(&self, coverage: &Coverage) -> Vec<(Statement, bool)> {
        self.machine().module.statements(&self.machine().entry, coverage)
    }
}

impl Machine for Simulator {
    type Address = BufferId;
    type Error = SimulatedError;
    type Session<'l> = Sim<'l>;
    type Blocks<'m> = Blocks<'m>;

    fn clusters(&self) -> u32 {
        self.clusters
    }

    /// All buffers are its own.
    fn check(&self, _: &Plan, _: &Matrices<'_, BufferId>) -> Result<(), KernelError> {
        Ok(())
    }

    /// Those of the host, or those that kernels make.
    fn lists(
        &self,
        sim: &mut Sim<'_>,
        plan: &Plan,
        of: Listed<'_, Blocks<'_>>,
    ) -> Result<Work<BufferId>, SimulatedError> {
        let (blocks, along) = match of {
            Listed::Blocks(blocks, along) => (blocks, along),
            Listed::Pairs(a, b, c) => {
                if let Some(kernels) = &self.lists {
                    let mut stream = Stream::new(kernels, &mut sim.memory);
                    let (grid, lists) = stream.list_pairs(plan, [a, b], c, self.clusters)?;
                    sim.report.findings = stream.findings();
                    let workspace = Some(sim.workspace(0));
                    return Ok((grid, Lists { workspace, probes: sim.rings, ..lists }));
                }
                let pairs = Pairs::new(a.structure(), b.structure(), c.map(Blocks::structure));
                let pairs = pairs.map_err(KernelError::from)?;
                let work = WorkLists::of_pairs(plan, &pairs, self.clusters);
                let lists = made(sim, &work, [pairs.index().col_idx(), pairs.a_blocks()]);
                settle(sim, plan, a, &lists);
                return Ok((work.grid, lists));
            }
        };
        let structure = blocks.structure();
        let (grid, lists) = if let Some(kernels) = &self.lists {
            let mut stream = Stream::new(kernels, &mut sim.memory);
            let (grid, lists, workspace) = stream.list(plan, structure, along, self.clusters)?;
            sim.report.findings = stream.findings();
            let workspace = Some(sim.workspace(workspace));
            (grid, Lists { workspace, probes: sim.rings, ..lists })
        } else {
            let work = WorkLists::new(plan, structure, along, self.clusters);
            let (columns, blocks) = match plan.reads_block_columns() {
                true => (structure.by_columns().col_idx(), structure.by_columns().block_idx()),
                false => (structure.col_idx(), &[][..]),
            };
            (work.grid, made(sim, &work, [columns, blocks]))
        };
        settle(sim, plan, blocks, &lists);
        Ok((grid, lists))
    }
}

/// The lists that the host made, with block columns and the numbers of their blocks.
fn made(sim: &mut Sim<'_>, work: &WorkLists, index: [&[i32]; 2]) -> Lists<BufferId> {
    let [columns, blocks] = index.map(|list| list.iter().map(|word| word.cast_unsigned()).collect::<Vec<_>>());
    let lists = [&work.heads, &work.tiles, &work.stage_metadata, &columns, &blocks];
    sim.lists(lists.map(Vec::as_slice), work.workspace)
}

/// No earlier kernel writes the sparse operand and the lists that are made of it.
fn settle(sim: &mut Sim<'_>, plan: &Plan, blocks: &Blocks<'_>, lists: &Lists<BufferId>) {
    if plan.spec().pdl == Pdl::Early && !blocks.is_written {
        let settled = [lists.heads, lists.tiles, lists.columns, lists.blocks, Some(blocks.values())];
        settled.into_iter().flatten().for_each(|id| sim.memory.settle(id));
    }
}
