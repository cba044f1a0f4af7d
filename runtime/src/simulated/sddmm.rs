//! SDDMMs on the simulator.

use std::collections::HashMap;

use bsr_codegen::{Argument, Operand};
use bsr_simulator::{GlobalMemory, Options, Param, Report};

use super::lines::writers_of;
use super::{Simulated, SimulatedError, bytes, describe, launch, padded};
use crate::epilogue::{Input, Inputs};
use crate::gpu::held;
use crate::kernel::{KernelError, fit, sddmm};
use crate::schedule::WorkLists;
use crate::{Dense, Element, Structure};

/// What a kernel makes of an SDDMM.
#[derive(Clone, Debug)]
pub struct SddmmValues<C> {
    /// The stored blocks, block after block, row by row, what extends beyond the edge of the matrix included.
    pub values: Vec<C>,
    /// The second result, one value for every row of the stored matrix, where the epilogue has one.
    pub rows: Option<Vec<f32>>,
}

impl Simulated {
    /// The values of the stored blocks of C = A * B (of C^T for a kernel with `transpose = on`) as
    /// [`Launcher::launch_sampled`](crate::Launcher::launch_sampled) writes them on a GPU: block after block, row by
    /// row, what extends beyond the edge of the matrix included. What the kernel does not write stays
    /// [`Element::POISON`].
    ///
    /// # Errors
    /// [`SimulatedError::Kernel`] for a kernel of another operation, blocks, shapes, element types or layouts that do
    /// not fit the kernel; [`SimulatedError::Launch`] for PTX that is not the plan's kernel.
    pub fn sddmm<A: Element, B: Element, C: Element>(
        &self,
        a: &Dense<A>,
        b: &Dense<B>,
        structure: &Structure,
        options: &Options,
    ) -> Result<(Vec<C>, Report), SimulatedError> {
        let (results, report) = self.sddmm_fused(a, b, structure, &Inputs::new(), options)?;
        Ok((results.values, report))
    }

    /// As [`Simulated::sddmm`], with the further operands of a kernel with an epilogue, and with its second result,
    /// where it has one: a value for every row of the stored matrix. C's blocks hold what a parameter says that is
    /// given C itself.
    ///
    /// # Errors
    /// As [`Simulated::sddmm`]; [`KernelError::Epilogue`] for inputs that the epilogue does
    /// not take.
    pub fn sddmm_fused<A: Element, B: Element, C: Element>(
        &self,
        a: &Dense<A>,
        b: &Dense<B>,
        structure: &Structure,
        inputs: &Inputs,
        options: &Options,
    ) -> Result<(SddmmValues<C>, Report), SimulatedError> {
        let (left, right) = (fit::Operand::from(a), fit::Operand::from(b));
        sddmm::operands(&self.plan, &left, &right, (C::DTYPE, structure))?;
        if self.plan.spec().batch.is_on() {
            return Err(KernelError::Batch { batch: true }.into());
        }
        let reduction = fit::sddmm_epilogue(&self.plan, structure, inputs)?;
        let start = reduction.map(|reduction| vec![reduction.start(); structure.rows()]);
        let mut values = held(inputs).unwrap_or_else(|| vec![C::POISON; structure.stored()]);
        if values.is_empty() {
            return Ok((SddmmValues { values, rows: start }, Report::default()));
        }
        let (a, b) = (padded(a), padded(b));
        let work = WorkLists::new(&self.plan, structure, a.cols(), self.clusters);
        let (lda, ldb) = (self.leading(a.ld(), size_of::<A>()), self.leading(b.ld(), size_of::<B>()));
        let problem = sddmm::problem((&left, lda as usize), (&right, ldb as usize), structure);
        let shape = self.plan.launch(&problem, work.grid);

        let mut memory = GlobalMemory::new();
        let id_c = bytes(&mut memory, C::to_bytes(&values));
        let mut operands = vec![];
        // Factors without K are not read.
        if a.cols() > 0 {
            let (a_line, b_line) = (a.ld() * size_of::<A>(), b.ld() * size_of::<B>());
            operands.push((Operand::A, self.lines(&mut memory, A::to_bytes(a.data()), a_line)));
            operands.push((Operand::B, self.lines(&mut memory, B::to_bytes(b.data()), b_line)));
        }
        let mut upload = |content: Vec<u8>| bytes(&mut memory, content);
        let mut scalars = HashMap::new();
        let program = self.plan.spec().epilogue.map(|epilogue| epilogue.program());
        for (at, input) in program.iter().flat_map(|program| program.inputs()).enumerate() {
            match inputs.get(&input.name) {
                Some(Input::Vector(vector)) => operands.push((Operand::Epilogue(at), upload(vector.to_bytes()))),
                Some(Input::Blocks(blocks)) => operands.push((Operand::Epilogue(at), upload(blocks.to_bytes()))),
                Some(Input::Scalar(value)) => {
                    scalars.insert(at, *value);
                }
                // C itself is where an operand without a buffer is looked for.
                Some(Input::Held(_) | Input::Matrix(_) | Input::Result(_)) | None => {}
            }
        }
        operands.extend(start.as_ref().map(|start| (Operand::Second, upload(f32::to_bytes(start)))));
        let mut words = |words: &[u32]| upload(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        let (heads, tiles) = (words(&work.heads), words(&work.tiles));
        let workspace = words(&vec![0; work.workspace.div_ceil(4).max(4)]);
        let buffer = |operand| operands.iter().find(|(there, _)| *there == operand).map_or(id_c, |(_, id)| *id);
        let param = |argument: &Argument| match argument {
            Argument::Map(map) => Param::TensorMap(describe(map, buffer(map.operand))),
            Argument::WorkHead => Param::Buffer(heads),
            Argument::Work => Param::Buffer(tiles),
            Argument::Workspace => Param::Buffer(workspace),
            Argument::Number(number) => Param::U32(*number),
            Argument::Scalar(at) => Param::F32(scalars.get(at).copied().unwrap_or(f32::NAN)),
            Argument::Pointer(operand) => Param::Buffer(buffer(*operand)),
            // Of the other operations alone.
            _ => Param::Buffer(id_c),
        };
        let params: Vec<Param> = shape.parameters.iter().map(|parameter| &parameter.argument).map(param).collect();
        let (start_c, start_rows) = (memory.bytes(id_c).to_vec(), start.as_ref().map(|start| f32::to_bytes(start)));
        let mut report = self.launch(&launch(&shape, params.clone()), &mut memory, options)?;
        if work.workspace > 0 && report.is_clean() {
            // The next launch finds the workspace as this one left it: flags at zero, and sums that mean nothing.
            memory.bytes_mut(workspace).iter_mut().filter(|byte| **byte != 0).for_each(|byte| *byte = 0xFF);
            memory.bytes_mut(id_c).copy_from_slice(&start_c);
            if let Some(rows) = start_rows {
                memory.bytes_mut(buffer(Operand::Second)).copy_from_slice(&rows);
            }
            let first = report;
            report = self.launch(&launch(&shape, params), &mut memory, options)?;
            report.coverage.merge(&first.coverage);
        }
        let all = (size_of_val(&values[..]), size_of_val(&values[..]));
        writers_of(&mut report, id_c, all);
        values.copy_from_slice(&C::from_bytes(memory.bytes(id_c)));
        let rows = start.map(|_| f32::from_bytes(memory.bytes(buffer(Operand::Second))));
        Ok((SddmmValues { values, rows }, report))
    }
}
