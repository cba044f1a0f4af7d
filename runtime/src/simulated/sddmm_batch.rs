//! Lists of SDDMMs on the simulator.

use std::collections::HashMap;

use bsr_codegen::{Argument, Operand, Problem};
use bsr_simulator::{BufferId, GlobalMemory, Options, Param, Report};

use super::batch::{MAP_BYTES, words};
use super::lines::writers_of;
use super::{ALIGN, Simulated, SimulatedError, bytes, describe, launch, padded};
use crate::kernel::{KernelError, fit, sddmm};
use crate::schedule::SddmmWork;
use crate::{Dense, Element, Structure};

impl Simulated {
    /// The values of the stored blocks of a list of SDDMMs in one launch, as
    /// [`Batch::push_sampled`](crate::kernel::Batch::push_sampled) has a GPU compute them: of A, B and where the blocks
    /// are, as in [`Simulated::sddmm`], each result full of [`Element::POISON`] before. Problems may share factors.
    ///
    /// # Errors
    /// [`KernelError::Batch`] of a kernel for one product a launch; [`KernelError::Problem`] with the number of a
    /// problem that does not fit the kernel.
    pub fn sddmm_batch<A: Element, B: Element, C: Element>(
        &self,
        problems: &[(&Dense<A>, &Dense<B>, &Structure)],
        options: &Options,
    ) -> Result<(Vec<Vec<C>>, Report), SimulatedError> {
        if !self.plan.spec().batch.is_on() {
            return Err(KernelError::Batch { batch: false }.into());
        }
        let mut memory = GlobalMemory::new();
        let (mut results, mut maps, mut uploaded) = (vec![], vec![], HashMap::<*const (), BufferId>::new());
        for (index, (a, b, structure)) in problems.iter().enumerate() {
            let (left, right) = (fit::Operand::from(*a), fit::Operand::from(*b));
            sddmm::operands(&self.plan, &left, &right, (C::DTYPE, structure))
                .map_err(|source| KernelError::Problem { index, source: Box::new(source) })?;
            let c = vec![C::POISON; structure.stored()];
            let id_c = bytes(&mut memory, C::to_bytes(&c));
            let (a_there, b_there) = (padded(a), padded(b));
            let mut once = |place: *const (), content: &dyn Fn() -> Vec<u8>, line: usize| match a.cols() {
                // Factors without K are not read.
                0 => id_c,
                _ => *uploaded.entry(place).or_insert_with(|| self.lines(&mut memory, content(), line)),
            };
            let (line_a, line_b) = (a_there.ld() * size_of::<A>(), b_there.ld() * size_of::<B>());
            let id_a = once(std::ptr::from_ref(*a).cast(), &|| A::to_bytes(a_there.data()), line_a);
            let id_b = once(std::ptr::from_ref(*b).cast(), &|| B::to_bytes(b_there.data()), line_b);
            let lda = self.leading(a_there.ld(), size_of::<A>()) as usize;
            let ldb = self.leading(b_there.ld(), size_of::<B>()) as usize;
            let problem = sddmm::problem((&left, lda), (&right, ldb), structure);
            let buffer = |operand| match operand {
                Operand::A => id_a,
                Operand::B => id_b,
                _ => id_c,
            };
            let made = self.plan.problem_maps(&problem);
            maps.push(made.iter().map(|map| describe(map, buffer(map.operand))).collect::<Vec<_>>());
            results.push((c, id_c));
        }
        let listed: Vec<_> = problems.iter().map(|(a, _, structure)| (*structure, a.cols())).collect();
        let work = SddmmWork::batch(&self.plan, &listed, self.clusters).filter(|work| work.ctas() > 0);
        let Some(work) = work else {
            return Ok((results.into_iter().map(|(c, _)| c).collect(), Report::default()));
        };
        let each = self.plan.problem_maps(&Problem::default()).len();
        let id_maps = memory.alloc(problems.len() * each * MAP_BYTES, ALIGN);
        for (problem, described) in maps.into_iter().enumerate() {
            // No work tile names a problem without blocks.
            for (at, map) in described.into_iter().enumerate().filter(|_| problems[problem].2.nnzb() > 0) {
                memory.place_map(id_maps, ((problem * each + at) * MAP_BYTES) as u64, map);
            }
        }
        let shape = self.plan.launch(&Problem::default(), [work.ctas(), 1]);
        let params = shape.parameters.iter().map(|parameter| match &parameter.argument {
            Argument::Maps => Param::Buffer(id_maps),
            Argument::WorkHead => Param::Buffer(words(&mut memory, &work.heads())),
            Argument::Work => Param::Buffer(words(&mut memory, &work.words())),
            Argument::Number(number) => Param::U32(*number),
            // Of kernels for one product a launch alone.
            _ => Param::U64(0),
        });
        let launched = launch(&shape, params.collect());
        let mut report = self.launch(&launched, &mut memory, options)?;
        if let Some((c, id_c)) = results.first() {
            writers_of(&mut report, *id_c, (size_of_val(&c[..]).max(1), size_of_val(&c[..]).max(1)));
        }
        let read = |(c, id): (Vec<C>, BufferId)| match c.is_empty() {
            true => c,
            false => C::from_bytes(memory.bytes(id)),
        };
        Ok((results.into_iter().map(read).collect(), report))
    }
}
