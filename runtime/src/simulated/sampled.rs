//! Sampled products on the simulator.

use bsr_codegen::{Argument, Operand, Problem};
use bsr_simulator::{GlobalMemory, Options, Param, Report, simulate};

use super::{ALIGN, Simulated, SimulatedError, describe, launch, padded};
use crate::kernel::{fit, sampled};
use crate::schedule::WorkLists;
use crate::{Dense, Element, Structure};

impl Simulated {
    /// The values of the stored blocks of C = A * B (of C^T for a kernel with `transpose = on`) as
    /// [`Launcher::launch_sampled`](crate::Launcher::launch_sampled) writes them on a GPU: block after block, row by row,
    /// what hangs over the edge of the matrix included. What the kernel does not write stays [`Element::POISON`].
    ///
    /// # Errors
    /// [`SimulatedError::Kernel`] for a kernel of another operation, blocks, shapes, element types or layouts that do not
    /// fit the kernel; [`SimulatedError::Launch`] for PTX that is not the plan's kernel.
    pub fn sample<A: Element, B: Element, C: Element>(
        &self,
        a: &Dense<A>,
        b: &Dense<B>,
        structure: &Structure,
        options: &Options,
    ) -> Result<(Vec<C>, Report), SimulatedError> {
        let left = fit::Operand { dtype: A::DTYPE, layout: a.layout(), rows: a.rows(), cols: a.cols() };
        let right = fit::Operand { dtype: B::DTYPE, layout: b.layout(), rows: b.rows(), cols: b.cols() };
        sampled::operands(&self.plan, &left, &right, (C::DTYPE, structure))?;
        let mut values = vec![C::POISON; structure.stored()];
        if a.cols() == 0 {
            values.fill(C::ZERO);
        }
        if values.is_empty() || a.cols() == 0 {
            return Ok((values, Report::default()));
        }
        let (a, b) = (padded(a), padded(b));
        let work = WorkLists::new(&self.plan, structure, a.cols(), self.clusters);
        let problem = Problem {
            m: a.rows() as u64,
            n: b.cols() as u64,
            k: a.cols() as u64,
            nnzb: structure.nnzb() as u64,
            lda: a.ld() as u64,
            ldb: b.ld() as u64,
            ldc: 0,
            ldt: 0,
        };
        let shape = self.plan.launch(&problem, work.grid);

        let mut memory = GlobalMemory::new();
        let id_c = memory.upload(C::to_bytes(&values), ALIGN);
        let id_a = memory.upload(A::to_bytes(a.data()), ALIGN);
        let id_b = memory.upload(B::to_bytes(b.data()), ALIGN);
        let buffer = |operand| match operand {
            Operand::A => id_a,
            Operand::B => id_b,
            _ => id_c,
        };
        let mut words = |words: &[u32]| {
            Param::Buffer(memory.upload(words.iter().flat_map(|word| word.to_le_bytes()).collect(), ALIGN))
        };
        let param = |argument: &Argument| match argument {
            Argument::Map(map) => Param::TensorMap(describe(map, buffer(map.operand))),
            Argument::WorkHead => words(&work.heads),
            Argument::Work => words(&work.items),
            Argument::Workspace => words(&vec![0; work.workspace.div_ceil(4).max(4)]),
            Argument::Number(number) => Param::U32(*number),
            Argument::Pointer(operand) => Param::Buffer(buffer(*operand)),
            // Of the other operations alone.
            _ => Param::Buffer(id_c),
        };
        let params = shape.parameters.iter().map(|parameter| &parameter.argument).map(param).collect();
        let report = simulate(&self.module, &self.entry, &launch(&shape, params), &mut memory, options)?;
        values.copy_from_slice(&C::from_bytes(memory.bytes(id_c)));
        Ok((values, report))
    }
}
