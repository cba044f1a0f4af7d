//! Lists of SDDMMs on the simulator.

use std::collections::HashMap;

use bsr_codegen::{Argument, Operand, Problem};
use bsr_simulator::{BufferId, GlobalMemory, Options, Param, Report};

use super::lines::{Factor, writers_of};
use super::memory::{ALIGN, MAP_BYTES, bytes, describe, launch, words};
use super::sddmm::{factors, fitting};
use super::{Simulated, SimulatedError};
use crate::kernel::arguments::UntypedHostCall;
use crate::kernel::matrix::HostDense;
use crate::kernel::{KernelError, sddmm};
use crate::schedule::SddmmWork;
use crate::{Element, timeline};

impl Simulated {
    pub(super) fn sparse_results<C: Element>(
        &self,
        calls: &[UntypedHostCall<'_>],
        options: &Options,
    ) -> Result<(Vec<Vec<C>>, Report), SimulatedError> {
        let mut memory = GlobalMemory::new();
        let (mut results, mut maps, mut listed) = (vec![], vec![], vec![]);
        let mut uploaded = HashMap::<*const (), (BufferId, usize)>::new();
        for (index, call) in calls.iter().enumerate() {
            let checked = || {
                let (a, b, structure) = factors(self.plan.spec().op, call)?;
                fitting::<C>(&self.plan, (&a, &b), structure, &call.inputs)?;
                Ok((a, b, structure))
            };
            let (a, b, structure) =
                checked().map_err(|source| KernelError::Problem { index, source: Box::new(source) })?;
            let k = a.operand.cols;
            let c = vec![C::POISON; structure.stored()];
            let id_c = bytes(&mut memory, C::to_bytes(&c));
            let mut once = |dense: &HostDense<'_>| match k {
                // Factors without K are not read.
                0 => (id_c, Factor::new(self, dense).ld as usize),
                _ => *uploaded.entry(std::ptr::from_ref(dense.memory).cast()).or_insert_with(|| {
                    let factor = Factor::new(self, dense);
                    let ld = factor.ld as usize;
                    (factor.upload(self, &mut memory), ld)
                }),
            };
            let ((id_a, a_line), (id_b, b_line)) = (once(&a), once(&b));
            let problem = sddmm::problem((&a.operand, a_line), (&b.operand, b_line), structure);
            let buffer = |operand| match operand {
                Operand::A => id_a,
                Operand::B => id_b,
                _ => id_c,
            };
            // No work tile names a problem without blocks.
            let made = if structure.nnzb() > 0 { self.plan.problem_maps(&problem) } else { vec![] };
            let described = made.iter().map(|map| describe(map.tiled()?, map.offset_bytes, buffer(map.operand)));
            maps.push(described.collect::<Result<Vec<_>, _>>()?);
            results.push((c, id_c));
            listed.push((structure, k));
        }
        let work = SddmmWork::batch(&self.plan, &listed, self.clusters).filter(|work| work.ctas() > 0);
        let Some(work) = work else {
            return Ok((results.into_iter().map(|(c, _)| c).collect(), Report::default()));
        };
        let each = self.plan.problem_maps(&Problem::default()).len();
        let id_maps = memory.alloc(calls.len() * each * MAP_BYTES, ALIGN);
        for (problem, described) in maps.into_iter().enumerate() {
            for (at, map) in described.into_iter().enumerate() {
                memory.place_map(id_maps, ((problem * each + at) * MAP_BYTES) as u64, map);
            }
        }
        let shape = self.plan.launch(&Problem::default(), [work.ctas(), 1]);
        let rings = timeline::rings(&self.plan, &mut memory);
        let params = shape.parameters.iter().map(|parameter| match &parameter.argument {
            Argument::Maps => Param::Buffer(id_maps),
            Argument::WorkHead => Param::Buffer(words(&mut memory, &work.heads())),
            Argument::Work => Param::Buffer(words(&mut memory, &work.words())),
            Argument::Number(number) => Param::U32(*number),
            Argument::Probes => rings.map_or(Param::U64(0), Param::Buffer),
            // Of kernels for one product a launch alone.
            _ => Param::U64(0),
        });
        let launched = launch(&shape, params.collect());
        let mut report = self.launch(&launched, &mut memory, options)?;
        self.records.keep(rings.map(|id| memory.bytes(id)));
        if let Some((c, id_c)) = results.first() {
            let all = size_of_val(&c[..]).max(1);
            writers_of(&mut report, *id_c, (all, all));
        }
        let read = |(c, id): (Vec<C>, BufferId)| match c.is_empty() {
            true => c,
            false => C::from_bytes(memory.bytes(id)),
        };
        Ok((results.into_iter().map(read).collect(), report))
    }
}
