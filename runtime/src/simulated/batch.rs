//! Launches of a list of problems on the simulator.

use std::collections::HashMap;

use bsr_codegen::{Argument, Op, Operand, Problem};
use bsr_simulator::{BufferId, GlobalMemory, Param};

use super::lines::writers_of;
use super::{
    ALIGN, Options, Report, Simulated, SimulatedError, apart, bytes, copy_lines, describe, launch, pad, padded,
};
use crate::kernel::{KernelError, fit};
use crate::schedule::BatchLists;
use crate::{Bsr, Dense, Element};

impl Simulated {
    /// Multiplies a list of problems in one launch, as [`Batch`](crate::kernel::Batch) does on a GPU: sparse factors and
    /// dense ones as in [`Simulated::multiply_factors`], each C full of [`Element::POISON`] before. Problems may share
    /// factors.
    ///
    /// # Errors
    /// [`KernelError::Batch`] of a kernel for one product a launch; [`KernelError::Problem`] with the number of a problem
    /// that does not fit the kernel.
    pub fn multiply_batch<S: Element, D: Element, C: Element>(
        &self,
        problems: &[(&Bsr<S>, &Dense<D>)],
        options: &Options,
    ) -> Result<(Vec<Dense<C>>, Report), SimulatedError> {
        let spec = self.plan.spec();
        if !spec.batch.is_on() {
            return Err(KernelError::Batch { batch: false }.into());
        }
        let mut memory = GlobalMemory::new();
        let (mut results, mut maps, mut uploaded) = (vec![], vec![], HashMap::new());
        for (index, (sparse, dense)) in problems.iter().enumerate() {
            let right = fit::Operand::from(*dense);
            let (rows, cols) = fit::Shapes::of(spec, sparse.structure(), &right).result;
            let product = fit::Operand { dtype: C::DTYPE, layout: spec.c_layout, rows, cols };
            let shapes = fit::operands(&self.plan, (S::DTYPE, sparse.structure()), &right, &product)
                .map_err(|source| KernelError::Problem { index, source: Box::new(source) })?;
            let c = Dense::<C>::filled(rows, cols, spec.c_layout, C::POISON);
            let wide = apart(&c);
            let id_c = self.lines(&mut memory, C::to_bytes(wide.data()), wide.ld() * size_of::<C>());
            if rows > 0 && cols > 0 {
                pad(&mut memory, id_c, &wide);
            }
            let dense_there = padded(dense);
            let mut once = |place: *const (), upload: &dyn Fn(&mut GlobalMemory) -> BufferId| match sparse.nnzb() {
                // Without stored blocks nothing is read.
                0 => id_c,
                _ => *uploaded.entry(place).or_insert_with(|| upload(&mut memory)),
            };
            let values =
                once(std::ptr::from_ref(*sparse).cast(), &|memory| bytes(memory, S::to_bytes(sparse.values())));
            let factor = once(std::ptr::from_ref(*dense).cast(), &|memory| {
                self.lines(memory, D::to_bytes(dense_there.data()), dense_there.ld() * size_of::<D>())
            });
            let problem = Problem {
                m: rows as u64,
                n: cols as u64,
                k: shapes.inner as u64,
                nnzb: sparse.nnzb() as u64,
                lda: self.leading(dense_there.ld(), size_of::<D>()),
                ldb: self.leading(dense_there.ld(), size_of::<D>()),
                ldc: self.leading(wide.ld(), size_of::<C>()),
                ldt: self.leading(wide.ld(), size_of::<C>()),
            };
            let mut described = vec![];
            if rows > 0 && cols > 0 {
                described.extend(self.plan.problem_maps(&problem).iter().map(|map| {
                    let sparse_operand = if spec.op == Op::Dds { Operand::B } else { Operand::A };
                    describe(
                        map,
                        match map.operand {
                            Operand::C => id_c,
                            operand if operand == sparse_operand => values,
                            _ => factor,
                        },
                    )
                }));
            }
            maps.push(described);
            results.push((c, id_c, shapes.along, wide.ld()));
        }
        let patterns: Vec<_> =
            problems.iter().zip(&results).map(|((sparse, _), result)| (sparse.structure(), result.2)).collect();
        let lists = BatchLists::new(&self.plan, &patterns, self.clusters);
        if lists.is_empty() {
            return Ok((results.into_iter().map(|(c, ..)| c).collect(), Report::default()));
        }
        let (each, shape) = (self.plan.problem_maps(&Problem::default()).len(), lists.grid);
        let id_maps = memory.alloc(problems.len() * each * MAP_BYTES, ALIGN);
        for (problem, described) in maps.into_iter().enumerate() {
            for (at, map) in described.into_iter().enumerate() {
                memory.place_map(id_maps, ((problem * each + at) * MAP_BYTES) as u64, map);
            }
        }
        let shape = self.plan.launch(&Problem::default(), shape);
        let params = shape.parameters.iter().map(|parameter| match &parameter.argument {
            Argument::Maps => Param::Buffer(id_maps),
            Argument::ColIdx => Param::Buffer(words(&mut memory, &lists.col_idx)),
            Argument::BlockIdx => Param::Buffer(words(&mut memory, &lists.block_idx)),
            Argument::WorkHead => Param::Buffer(words(&mut memory, &lists.heads)),
            Argument::Work => Param::Buffer(words(&mut memory, &lists.tiles)),
            Argument::Number(number) => Param::U32(*number),
            Argument::StageMetadata => Param::Buffer(words(&mut memory, &lists.stage_metadata)),
            Argument::Map(_) | Argument::Pointer(_) | Argument::Workspace | Argument::Scalar(_) => Param::U64(0),
        });
        let launched = launch(&shape, params.collect());
        let mut report = self.launch(&launched, &mut memory, options)?;
        if let Some((c, id_c, _, ld)) = results.first() {
            writers_of(&mut report, *id_c, (ld * size_of::<C>(), c.ld() * size_of::<C>()));
        }
        let read = |(mut c, id, _, ld): (Dense<C>, BufferId, usize, usize)| {
            if c.rows() > 0 && c.cols() > 0 {
                copy_lines(&mut c, ld, &C::from_bytes(memory.bytes(id)));
            }
            c
        };
        Ok((results.into_iter().map(read).collect(), report))
    }
}

/// Bytes of a tensor map.
pub(super) const MAP_BYTES: usize = 128;

pub(super) fn words(memory: &mut GlobalMemory, words: &[u32]) -> BufferId {
    bytes(memory, words.iter().flat_map(|word| word.to_le_bytes()).collect())
}
