//! SDDMMs on the simulator.

use std::collections::HashMap;

use bsr_codegen::epilogue::Reduction;
use bsr_codegen::{Argument, Op, Operand, Plan, TensorMapError};
use bsr_simulator::{GlobalMemory, Options, Param, Report};

use super::lines::{Factor, writers_of};
use super::lists::Listed;
use super::memory::{bytes, describe, launch};
use super::workspace::workspace;
use super::{Simulated, SimulatedError};
use crate::epilogue::{Input, Inputs, Results};
use crate::gpu::held;
use crate::kernel::arguments::UntypedHostCall;
use crate::kernel::matrix::{HostDense, HostView};
use crate::kernel::{KernelError, fit, sddmm};
use crate::schedule::WorkLists;
use crate::{Element, Structure, timeline};

/// The factors, and where the blocks of the result are.
///
/// # Errors
/// [`KernelError::Factors`] and [`KernelError::Result`] of a kernel of another operation.
pub(super) fn factors<'h>(
    op: Op,
    call: &UntypedHostCall<'h>,
) -> Result<(HostDense<'h>, HostDense<'h>, &'h Structure), KernelError> {
    match (op, call.a, call.b, call.pattern) {
        (Op::Sdd, HostView::Dense(a), HostView::Dense(b), Some(pattern)) => Ok((a, b, pattern)),
        (Op::Sdd, ..) => Err(KernelError::Factors { expected: op }),
        (op, ..) => Err(KernelError::Result { op }),
    }
}

/// Whether the operands fit the kernel; the reduction of its second result.
///
/// # Errors
/// Operands that do not.
pub(super) fn fitting<C: Element>(
    plan: &Plan,
    (a, b): (&HostDense<'_>, &HostDense<'_>),
    structure: &Structure,
    inputs: &Inputs,
) -> Result<Option<Reduction>, KernelError> {
    sddmm::operands(plan, &a.operand, &b.operand, (C::DTYPE, structure))?;
    let scales = inputs.scales_given();
    sddmm::scales(plan, scales.kind())?;
    fit::sddmm_epilogue(plan, structure, inputs)
}

impl Simulated {
    pub(super) fn sparse_result<C: Element>(
        &self,
        a: &HostDense<'_>,
        b: &HostDense<'_>,
        structure: &Structure,
        inputs: &Inputs,
        options: &Options,
    ) -> Result<(Results<Vec<C>>, Report), SimulatedError> {
        let reduction = fitting::<C>(&self.plan, (a, b), structure, inputs)?;
        if self.plan.spec().batch.is_on() {
            return Err(KernelError::Batch { batch: true }.into());
        }
        let start = reduction.map(|reduction| vec![reduction.start(); structure.rows()]);
        let mut values = held(inputs).unwrap_or_else(|| vec![C::POISON; structure.stored()]);
        if values.is_empty() {
            return Ok((Results { c: values, rows: start }, Report::default()));
        }
        let k = a.operand.cols;
        let factors = [Factor::new(self, a), Factor::new(self, b)];
        let work = WorkLists::new(&self.plan, structure, k, self.clusters);
        let [lda, ldb] = [0, 1].map(|at| factors[at].ld as usize);
        let problem = sddmm::problem((&a.operand, lda), (&b.operand, ldb), structure);
        let mut memory = GlobalMemory::new();
        let listed = self.listed(structure, k, &mut memory)?;
        if let Some(Listed { findings, .. }) = &listed
            && !findings.is_empty()
        {
            let report = Report { findings: findings.clone(), ..Report::default() };
            return Ok((Results { c: values, rows: start }, report));
        }
        let shape = self.plan.launch(&problem, listed.as_ref().map_or(work.grid, |listed| listed.grid));
        let id_c = bytes(&mut memory, C::to_bytes(&values));
        let mut operands = vec![];
        // Factors without K are not read.
        if k > 0 {
            let [a, b] = factors.map(|factor| factor.upload(self, &mut memory));
            operands.extend([(Operand::A, a), (Operand::B, b)]);
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
        let (heads, tiles) = match &listed {
            Some(Listed { heads, work, .. }) => (*heads, *work),
            None => (words(&work.heads), words(&work.tiles)),
        };
        let workspace_bytes = if listed.is_some() { 0 } else { work.workspace };
        let workspace = self::workspace(&mut memory, workspace_bytes);
        let rings = timeline::rings(&self.plan, &mut memory);
        let buffer = |operand| operands.iter().find(|(there, _)| *there == operand).map_or(id_c, |(_, id)| *id);
        let param = |argument: &Argument| {
            Ok(match argument {
                Argument::Map(map) => Param::TensorMap(describe(map.tiled()?, map.offset_bytes, buffer(map.operand))?),
                Argument::WorkHead => Param::Buffer(heads),
                Argument::Work => Param::Buffer(tiles),
                Argument::Workspace => Param::Buffer(workspace),
                Argument::Number(number) => Param::U32(*number),
                Argument::Scalar(at) => Param::F32(scalars.get(at).copied().unwrap_or(f32::NAN)),
                Argument::Pointer(operand) => Param::Buffer(buffer(*operand)),
                Argument::Probes => rings.map_or(Param::U64(0), Param::Buffer),
                // Of the other operations alone.
                _ => Param::Buffer(id_c),
            })
        };
        let params: Result<Vec<Param>, TensorMapError> =
            shape.parameters.iter().map(|parameter| &parameter.argument).map(param).collect();
        let params = params?;
        let results = [id_c, buffer(Operand::Second)];
        let workspace = (workspace_bytes > 0).then_some(workspace);
        let mut report = self.launch_with(&launch(&shape, params), &mut memory, workspace, &results, options)?;
        self.records.keep(rings.map(|id| memory.bytes(id)));
        let all = size_of_val(&values[..]);
        writers_of(&mut report, id_c, (all, all));
        values.copy_from_slice(&C::from_bytes(memory.bytes(id_c)));
        let rows = start.map(|_| f32::from_bytes(memory.bytes(buffer(Operand::Second))));
        Ok((Results { c: values, rows }, report))
    }
}
