//! Launches of a list of problems on the simulator.

use std::collections::HashMap;

use bsr_simulator::{BufferId, Options, Report};

use super::lines::writers_of;
use super::memory::{Blocks, apart, copy_lines};
use super::{Simulated, SimulatedError, dense, sddmm};
use crate::bind::Lists;
use crate::gpu::{DeviceInputs, UntypedDense};
use crate::kernel::arguments::UntypedHostCall;
use crate::kernel::matrix::HostDense;
use crate::kernel::{KernelError, fit};
use crate::machine::{Machine, Sim};
use crate::operation::{self, Operands, Product, Sddmm};
use crate::schedule::BatchLists;
use crate::{Dense, Element, Structure};

/// Factors by the matrix that they are: problems may share it.
type Uploaded = HashMap<*const (), UntypedDense<BufferId>>;

impl Simulated {
    pub(super) fn dense_results<C: Element>(
        &self,
        calls: &[UntypedHostCall<'_>],
        options: &Options,
    ) -> Result<(Vec<Dense<C>>, Report), SimulatedError> {
        let (spec, none) = (self.plan.spec(), DeviceInputs::none());
        let (mut sim, mut results, mut problems) = (self.machine(options), vec![], vec![]);
        let (mut factors, mut stored) = (Uploaded::new(), HashMap::new());
        for (index, call) in calls.iter().enumerate() {
            let checked = || {
                let (sparse, dense) = dense::factors(spec.op, call)?;
                let shapes = dense::fitting::<C>(self, &sparse, &dense, &call.inputs)?;
                fit::epilogue(&self.plan, shapes.result, &call.inputs)?;
                Ok((sparse, dense, shapes.result))
            };
            let (sparse, dense, (rows, cols)) =
                checked().map_err(|source| KernelError::Problem { index, source: Box::new(source) })?;
            let c = Dense::<C>::filled(rows, cols, spec.c_layout, C::POISON);
            let wide = apart(&c);
            let placed = self.dense_c(&mut sim, &wide);
            let structure = sparse.structure;
            // Without stored blocks nothing is read.
            let unread = (structure.nnzb() == 0).then_some(placed.ptr);
            let mut upload = || sim.bytes(sparse.memory.placed().1);
            let key = std::ptr::from_ref(sparse.memory).cast::<()>();
            let values = unread.unwrap_or_else(|| *stored.entry(key).or_insert_with(&mut upload));
            problems.push(Product {
                sparse: Blocks { structure, values, spare: 0 },
                dense: self.shared_factor(&mut sim, &mut factors, &dense, unread),
                c: placed,
                inputs: &none,
                second: None,
            });
            results.push((c, wide.ld()));
        }
        let pattern = |problem: &Product<'_, Blocks<'_>>| problem.shapes(&self.plan).along;
        let patterns: Vec<_> = problems.iter().map(|problem| (problem.sparse.structure, pattern(problem))).collect();
        self.launch_batch(&mut sim, &problems, &patterns)?;
        for ((c, ld), problem) in results.iter_mut().zip(&problems).filter(|(_, problem)| !problem.is_empty()) {
            copy_lines(c, *ld, &C::from_bytes(sim.memory.bytes(problem.c.ptr)));
        }
        if let Some(((c, ld), problem)) = results.first().zip(problems.first()) {
            writers_of(&mut sim.report, problem.c.ptr, [*ld, c.ld()].map(|ld| ld.max(1) * size_of::<C>()));
        }
        Ok((results.into_iter().map(|(c, _)| c).collect(), sim.report))
    }

    pub(super) fn sparse_results<C: Element>(
        &self,
        calls: &[UntypedHostCall<'_>],
        options: &Options,
    ) -> Result<(Vec<Vec<C>>, Report), SimulatedError> {
        let (mut sim, none) = (self.machine(options), DeviceInputs::none());
        let (mut factors, mut problems) = (Uploaded::new(), vec![]);
        for (index, call) in calls.iter().enumerate() {
            let checked = || {
                let (a, b, structure) = sddmm::factors(self.plan.spec().op, call)?;
                sddmm::fitting::<C>(&self.plan, (&a, &b), structure, &call.inputs)?;
                Ok((a, b, structure))
            };
            let (a, b, structure) =
                checked().map_err(|source| KernelError::Problem { index, source: Box::new(source) })?;
            let id = sim.bytes(C::to_bytes(&vec![C::POISON; structure.stored()]));
            // Factors without K are not read.
            let unread = (a.operand.cols == 0).then_some(id);
            problems.push(Sddmm {
                a: self.shared_factor(&mut sim, &mut factors, &a, unread),
                b: self.shared_factor(&mut sim, &mut factors, &b, unread),
                c: Blocks { structure, values: sim.result(id), spare: 0 },
                inputs: &none,
                second: None,
            });
        }
        let patterns: Vec<_> = problems.iter().map(|problem| (problem.c.structure, problem.a.cols)).collect();
        self.launch_batch(&mut sim, &problems, &patterns)?;
        if let Some(first) = problems.first() {
            let all = (first.c.structure.stored() * size_of::<C>()).max(1);
            writers_of(&mut sim.report, first.c.values, [all; 2]);
        }
        let bytes = |c: &Blocks<'_>| &sim.memory.bytes(c.values)[..c.structure.stored() * size_of::<C>()];
        let results = problems.iter().map(|problem| C::from_bytes(bytes(&problem.c))).collect();
        Ok((results, sim.report))
    }

    fn shared_factor(
        &self,
        sim: &mut Sim<'_>,
        uploaded: &mut Uploaded,
        dense: &HostDense<'_>,
        unread: Option<BufferId>,
    ) -> UntypedDense<BufferId> {
        let key = std::ptr::from_ref(dense.memory).cast();
        match unread {
            Some(_) => self.factor(sim, dense, unread),
            None => *uploaded.entry(key).or_insert_with(|| self.factor(sim, dense, None)),
        }
    }

    fn launch_batch<O: Operands<Address = BufferId>>(
        &self,
        sim: &mut Sim<'_>,
        problems: &[O],
        patterns: &[(&Structure, usize)],
    ) -> Result<(), SimulatedError> {
        let work = BatchLists::new(&self.plan, patterns, self.clusters);
        let lists = [&work.heads, &work.tiles, &work.stage_metadata, &work.col_idx, &work.block_idx];
        let lists = sim.lists(lists.map(Vec::as_slice), work.workspace);
        let maps = operation::maps(&self.plan, problems, |at, map| sim.map(at, map))?;
        let lists = Lists { maps: Some(sim.maps(maps)), ..lists };
        // SAFETY: the simulator finds what a kernel does wrong, and the operands are its own.
        unsafe { operation::launch_batch(sim, &self.plan, work.grid, &lists)? };
        self.records.keep(sim.records());
        Ok(())
    }
}
