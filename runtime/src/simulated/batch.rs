//! Launches of a list of products with dense results on the simulator.

use std::collections::HashMap;

use bsr_codegen::{Argument, Op, Operand, Problem};
use bsr_simulator::{BufferId, GlobalMemory, Param};

use super::dense::{factors, fitting};
use super::lines::{Factor, writers_of};
use super::memory::{ALIGN, MAP_BYTES, apart, bytes, copy_lines, describe, launch, pad, words};
use super::workspace::workspace;
use super::{Options, Report, Simulated, SimulatedError};
use crate::kernel::arguments::UntypedHostCall;
use crate::kernel::matrix::sealed::OnHost;
use crate::kernel::{KernelError, fit};
use crate::schedule::BatchLists;
use crate::{Dense, Element, timeline};

impl Simulated {
    pub(super) fn dense_results<C: Element>(
        &self,
        calls: &[UntypedHostCall<'_>],
        options: &Options,
    ) -> Result<(Vec<Dense<C>>, Report), SimulatedError> {
        let spec = self.plan.spec();
        let mut memory = GlobalMemory::new();
        let (mut results, mut maps, mut uploaded) = (vec![], vec![], HashMap::new());
        let mut stored = vec![];
        for (index, call) in calls.iter().enumerate() {
            let checked = || {
                let (sparse, dense) = factors(spec.op, call)?;
                let shapes = fitting::<C>(self, &sparse, &dense, &call.inputs)?;
                fit::epilogue(&self.plan, shapes.result, &call.inputs)?;
                Ok((sparse, dense, shapes))
            };
            let (sparse, dense, shapes) =
                checked().map_err(|source| KernelError::Problem { index, source: Box::new(source) })?;
            let (rows, cols) = shapes.result;
            let c = Dense::<C>::filled(rows, cols, spec.c_layout, C::POISON);
            let wide = apart(&c);
            let id_c = self.lines(&mut memory, C::to_bytes(wide.data()), wide.ld() * size_of::<C>());
            if rows > 0 && cols > 0 {
                pad(&mut memory, id_c, &wide);
            }
            let mut once = |of: &dyn OnHost, upload: &dyn Fn(&mut GlobalMemory) -> (BufferId, u64)| {
                *uploaded.entry(std::ptr::from_ref(of).cast::<()>()).or_insert_with(|| upload(&mut memory))
            };
            let upload = |memory: &mut GlobalMemory| {
                let factor = Factor::new(self, &dense);
                let ld = factor.ld;
                (factor.upload(self, memory), ld)
            };
            let (values, (factor, ld)) = match sparse.structure.nnzb() {
                // Without stored blocks nothing is read.
                0 => (id_c, (id_c, Factor::new(self, &dense).ld)),
                _ => (
                    once(sparse.memory, &|memory| (bytes(memory, sparse.memory.placed().1), 0)).0,
                    once(dense.memory, &upload),
                ),
            };
            let problem = Problem {
                m: rows as u64,
                n: cols as u64,
                k: shapes.inner as u64,
                nnzb: sparse.structure.nnzb() as u64,
                lda: ld,
                ldb: ld,
                ldc: self.leading(wide.ld(), size_of::<C>()),
                ldt: self.leading(wide.ld(), size_of::<C>()),
            };
            let mut described = vec![];
            if rows > 0 && cols > 0 {
                let sparse_operand = if spec.op == Op::Dds { Operand::B } else { Operand::A };
                for map in self.plan.problem_maps(&problem) {
                    let buffer = match map.operand {
                        Operand::C => id_c,
                        operand if operand == sparse_operand => values,
                        _ => factor,
                    };
                    described.push(describe(map.tiled()?, map.offset_bytes, buffer)?);
                }
            }
            maps.push(described);
            stored.push((sparse.structure, shapes.along));
            results.push((c, id_c, wide.ld()));
        }
        let lists = BatchLists::new(&self.plan, &stored, self.clusters);
        if lists.is_empty() {
            return Ok((results.into_iter().map(|(c, ..)| c).collect(), Report::default()));
        }
        let (each, shape) = (self.plan.problem_maps(&Problem::default()).len(), lists.grid);
        let id_maps = memory.alloc(calls.len() * each * MAP_BYTES, ALIGN);
        for (problem, described) in maps.into_iter().enumerate() {
            for (at, map) in described.into_iter().enumerate() {
                memory.place_map(id_maps, ((problem * each + at) * MAP_BYTES) as u64, map);
            }
        }
        let shape = self.plan.launch(&Problem::default(), shape);
        let workspace = workspace(&mut memory, lists.workspace);
        let rings = timeline::rings(&self.plan, &mut memory);
        let params = shape.parameters.iter().map(|parameter| match &parameter.argument {
            Argument::Maps => Param::Buffer(id_maps),
            Argument::ColIdx => Param::Buffer(words(&mut memory, &lists.col_idx)),
            Argument::BlockIdx => Param::Buffer(words(&mut memory, &lists.block_idx)),
            Argument::WorkHead => Param::Buffer(words(&mut memory, &lists.heads)),
            Argument::Work => Param::Buffer(words(&mut memory, &lists.tiles)),
            Argument::Number(number) => Param::U32(*number),
            Argument::StageMetadata => Param::Buffer(words(&mut memory, &lists.stage_metadata)),
            Argument::Workspace => Param::Buffer(workspace),
            Argument::Probes => rings.map_or(Param::U64(0), Param::Buffer),
            Argument::Map(_) | Argument::Strided(_) | Argument::Pointer(_) => Param::U64(0),
            Argument::Scalar(_) | Argument::Scale | Argument::VectorStrides(_) => Param::U64(0),
        });
        let launched = launch(&shape, params.collect());
        let used = (lists.workspace > 0).then_some(workspace);
        let written: Vec<BufferId> = results.iter().map(|(_, id, _)| *id).collect();
        let mut report = self.launch_with(&launched, &mut memory, used, &written, options)?;
        self.records.keep(rings.map(|id| memory.bytes(id)));
        if let Some((c, id_c, ld)) = results.first() {
            writers_of(&mut report, *id_c, (ld * size_of::<C>(), c.ld() * size_of::<C>()));
        }
        let read = |(mut c, id, ld): (Dense<C>, BufferId, usize)| {
            if c.rows() > 0 && c.cols() > 0 {
                copy_lines(&mut c, ld, &C::from_bytes(memory.bytes(id)));
            }
            c
        };
        Ok((results.into_iter().map(read).collect(), report))
    }
}
