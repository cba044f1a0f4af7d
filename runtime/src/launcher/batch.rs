//! A list of products in one launch: of one pattern or of many, of any shapes.

use std::borrow::Cow;
use std::marker::PhantomData;

use bsr_codegen::{Dtype, Layout, Op, Plan};

use super::Launcher;
use super::gpu::UploadedWork;
use super::memory::{self, C, Span};
use crate::Structure;
use crate::call::arguments::{AnyArguments, AnyResults, UntypedCall, UntypedResults};
use crate::error::KernelError;
use crate::gpu::{
    CUtensorMap, DeviceBuffer, DevicePattern, DevicePtr, Fingerprint, Stored, StreamRef, TensorMap, UntypedBsr,
    UntypedDense,
};
use crate::machine::Lists;
use crate::operation::{self, Matrices, OnMatrices};

/// Words of a tensor map.
const MAP_WORDS: usize = 16;

/// Products that a kernel with `batch = on` computes in one launch. Every one has its own operands and its own M, N and
/// K; several may share a sparse matrix or a dense factor. They run in any order and at the same time.
#[derive(Debug)]
pub struct Batch<'l, 'm> {
    launcher: &'l Launcher,
    /// Operands that fit the kernel, without further inputs.
    problems: Vec<OnMatrices<'static, Blocks<'m>>>,
    /// What they read and write, each with the number of its problem.
    spans: Vec<(usize, Span)>,
}

/// The blocks of a matrix, or of a part of it.
#[derive(Clone, Debug)]
struct Blocks<'m> {
    structure: Cow<'m, Structure>,
    dtype: Dtype,
    values: (DevicePtr, DevicePtr),
    layout: Layout,
    index: Option<(DevicePtr, DevicePtr)>,
    pattern: Option<&'m DevicePattern>,
    on: usize,
}

impl<'m> Blocks<'m> {
    /// Part `index` of `count` equal ones, one below another.
    fn part_of(stack: &UntypedBsr<'m>, count: usize, index: usize) -> Self {
        let (structure, first) = part_of(stack.structure, count, index);
        let (bm, bk) = structure.block();
        let block = (bm * bk * stack.dtype.bytes() as usize) as u64;
        let start = stack.values.0 + first as u64 * block;
        let values = (start, start + structure.nnzb() as u64 * block);
        Self { structure: Cow::Owned(structure), values, index: None, ..Self::from(stack) }
    }
}

impl<'m> From<&UntypedBsr<'m>> for Blocks<'m> {
    fn from(whole: &UntypedBsr<'m>) -> Self {
        let UntypedBsr { structure, dtype, values, layout, index, pattern, on, .. } = *whole;
        Self { structure: Cow::Borrowed(structure), dtype, values, layout, index: Some(index), pattern, on }
    }
}

impl Stored for Blocks<'_> {
    type Address = DevicePtr;

    fn structure(&self) -> &Structure {
        &self.structure
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn layout(&self) -> Option<Layout> {
        Some(self.layout)
    }

    fn range(&self) -> (DevicePtr, DevicePtr) {
        self.values
    }

    fn index(&self) -> Option<(DevicePtr, DevicePtr)> {
        self.index
    }

    fn pattern(&self) -> Option<&DevicePattern> {
        self.pattern
    }

    fn on(&self) -> Option<usize> {
        Some(self.on)
    }

    fn places(&self) -> usize {
        self.structure.nnzb()
    }
}

impl<'l, 'm> Batch<'l, 'm> {
    pub(super) fn new(launcher: &'l Launcher) -> Self {
        Self { launcher, problems: vec![], spans: vec![] }
    }

    /// Adds a product: `(&a, &b)` and `&mut c`, as in [`Launcher::launch`]. Several products may share a factor.
    ///
    /// # Errors
    /// [`KernelError::Batch`] of a kernel for one product a launch; [`KernelError::Problem`] with the number of the
    /// problem and what a launch of it alone would answer. The batch stays as it was.
    pub fn push(&mut self, inputs: impl AnyArguments<'m>, c: impl AnyResults<'m>) -> Result<(), KernelError> {
        let (call, results) = (inputs.untyped(self.op()), c.untyped());
        self.numbered(|this| {
            let operands = this.operands(&call, results)?;
            this.add(&operands.map(|dense| Ok(*dense), |blocks, _| Blocks::from(blocks))?)
        })
    }

    /// Adds `count` products of equal size. Of one sparse factor: the dense factor and `c` hold those of all products, one
    /// below another. Of `op = sdd`: A, B and C do; block rows of `c` belong to one product each, whose pattern they are, that
    /// of all of them, where a pattern is repeated, or one a product.
    ///
    /// # Errors
    /// As [`Batch::push`]; [`KernelError::Stack`] where the rows do not come out even, those of a sparse result in whole block
    /// rows; [`KernelError::Refused`] where a matrix of a column-major stack does not start on 16 bytes. The batch stays as it
    /// was.
    pub fn stacked(
        &mut self,
        inputs: impl AnyArguments<'m>,
        c: impl AnyResults<'m>,
        count: usize,
    ) -> Result<(), KernelError> {
        let (call, results) = (inputs.untyped(self.op()), c.untyped());
        let (problems, spans) = (self.problems.len(), self.spans.len());
        let added = self.add_stacked(&call, results, count);
        if added.is_err() {
            self.problems.truncate(problems);
            self.spans.truncate(spans);
        }
        added
    }

    fn add_stacked(
        &mut self,
        call: &UntypedCall<'m>,
        results: UntypedResults<'m>,
        count: usize,
    ) -> Result<(), KernelError> {
        let stacks = self.operands(call, results)?;
        check_stacks(count, self.launcher.plan(), stacks.operands())?;
        (0..count).try_for_each(|index| {
            self.numbered(|this| {
                let part = |stack: &UntypedDense| stack.stacked(count, index).map_err(KernelError::from);
                let blocks = |blocks: &UntypedBsr<'m>, is_result| match is_result {
                    true => Blocks::part_of(blocks, count, index),
                    false => Blocks::from(blocks),
                };
                this.add(&stacks.map(part, blocks)?)
            })
        })
    }

    /// The operands of a problem, or of several that are stacked.
    ///
    /// # Errors
    /// [`KernelError::Factors`] and [`KernelError::Result`] for other matrices; [`KernelError::DevicePattern`] for a result whose
    /// pattern the host does not know.
    fn operands<'i>(
        &self,
        call: &'i UntypedCall<'m>,
        results: UntypedResults<'m>,
    ) -> Result<OnMatrices<'i, UntypedBsr<'m>>, KernelError> {
        let inputs = &call.inputs;
        let operands = OnMatrices::new(self.op(), [call.a, call.b, results.c], inputs, results.second)?;
        let blocks = operands.operands().blocks(self.launcher.plan());
        match blocks.iter().any(|(name, blocks)| *name == C && blocks.pattern().is_some()) {
            true => Err(KernelError::DevicePattern {
                why: "the kernel computes several products a launch".to_owned(),
                help: "a launch for each product",
            }),
            false => Ok(operands),
        }
    }

    /// Problems so far.
    pub fn len(&self) -> usize {
        self.problems.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    fn op(&self) -> Op {
        self.launcher.plan().spec().op
    }

    fn numbered(&mut self, add: impl FnOnce(&mut Self) -> Result<(), KernelError>) -> Result<(), KernelError> {
        if !self.launcher.plan().spec().batch.is_on() {
            return Err(KernelError::Batch { batch: false });
        }
        let index = self.len();
        add(self).map_err(|source| KernelError::Problem { index, source: Box::new(source) })
    }

    /// Adds a problem whose operands fit. Further operands and a second result, which kernels for lists do not have, are
    /// refused as by a launch.
    fn add(&mut self, operands: &OnMatrices<'_, Blocks<'m>>) -> Result<(), KernelError> {
        self.launcher.check(operands.operands())?;
        let (index, (read, written)) = (self.problems.len(), memory::spans(self.launcher.plan(), operands.operands()));
        self.spans.extend(read.into_iter().chain(written).map(|span| (index, span)));
        self.problems.push(operands.alone());
        Ok(())
    }

    /// Makes the work plan, and the tensor maps or the records of problems, and copies them to the device: what launches need, who allocate nothing.
    ///
    /// # Errors
    /// [`KernelError::BatchOverlap`] where one problem's C overlaps an operand or the C of another;
    /// [`KernelError::TooLarge`] for more stored blocks than 32 bits count; [`KernelError::Gpu`].
    pub fn prepare(self) -> Result<PreparedBatch<'l, 'm>, KernelError> {
        let Self { launcher, problems, spans } = self;
        let (device, plan) = (launcher.device(), launcher.plan());
        memory::problems(spans)?;
        let operands: Vec<_> = problems.iter().map(OnMatrices::operands).collect();
        let lists = launcher.batch_lists(&operands)?;
        let map = |at, map: &TensorMap| Ok::<_, KernelError>(launcher.machine().maps.get(at, map)?);
        // Zeros for a problem without a result.
        let none = CUtensorMap { opaque: [0; MAP_WORDS] };
        let maps = operation::maps(plan, &operands, map)?.into_iter().flat_map(|map| map.unwrap_or(none).opaque);
        let work = [&lists.heads, &lists.tiles, &lists.stage_metadata].map(Vec::as_slice);
        Ok(PreparedBatch {
            launcher,
            work: UploadedWork::new(device, lists.grid, work, lists.workspace)?,
            columns: DeviceBuffer::from_slice(device, &lists.col_idx)?,
            blocks: DeviceBuffer::from_slice(device, &lists.block_idx)?,
            maps: DeviceBuffer::from_slice(device, &maps.collect::<Vec<_>>())?,
            problems: DeviceBuffer::from_slice(device, &operation::problem_records(plan, &operands, |at| at)?)?,
            operands: PhantomData,
        })
    }
}

/// Whether the stacked matrices of a problem are `count` matrices, those of a result in blocks whole block rows.
fn check_stacks(count: usize, plan: &Plan, stacks: &Matrices<'_, DevicePtr>) -> Result<(), KernelError> {
    let dense = stacks.dense(plan).into_iter().map(|(operand, dense)| (operand, dense.rows, 1));
    let blocks = stacks.blocks(plan).into_iter().filter(|(name, _)| *name == C);
    let blocks = blocks.map(|(name, blocks)| (name, blocks.structure().rows(), blocks.structure().block().0));
    let uneven = |rows: usize, unit| count == 0 || !rows.is_multiple_of(count) || !(rows / count).is_multiple_of(unit);
    match dense.chain(blocks).find(|(_, rows, unit)| uneven(*rows, *unit)) {
        Some((operand, rows, unit)) => Err(KernelError::Stack { operand, rows, count, unit }),
        None => Ok(()),
    }
}

/// Part `index` of `count` equal ones, one below another, and the number of its first block.
fn part_of(stack: &Structure, count: usize, index: usize) -> (Structure, usize) {
    let rows = stack.rows() / count / stack.block().0;
    (stack.part(index * rows..(index + 1) * rows), stack.row_ptr()[index * rows] as usize)
}

/// A batch whose work plan and tensor maps are on the device.
#[derive(Debug)]
pub struct PreparedBatch<'l, 'm> {
    launcher: &'l Launcher,
    work: UploadedWork,
    columns: DeviceBuffer<u32>,
    blocks: DeviceBuffer<u32>,
    maps: DeviceBuffer<u64>,
    problems: DeviceBuffer<u64>,
    /// They stay borrowed.
    operands: PhantomData<&'m ()>,
}

impl PreparedBatch<'_, '_> {
    /// Enqueues all products on `stream` and returns at once; nothing is allocated, but for a workspace of a kernel with
    /// `split` on the second stream that the batch is launched on, and on each further one. Keep the batch and the matrices alive
    /// until the stream has been synchronized.
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn launch<'s>(&self, stream: impl Into<StreamRef<'s>>) -> Result<(), KernelError> {
        if self.work.grid[0] == 0 {
            return Ok(());
        }
        let (stream, kernel) = (stream.into(), self.launcher.machine());
        let [columns, blocks] = [&self.columns, &self.blocks].map(|list| Some(list.ptr()));
        let [maps, problems] = [&self.maps, &self.problems].map(|list| Some(list.ptr()));
        let lists = Lists { columns, blocks, maps, problems, probes: kernel.rings(), ..self.work.lists(stream)? };
        // SAFETY: the kernel is the plan's, whose parameters these are; the work plan and the maps were made of the
        // problems' matrices, which were found to fit the kernel and stay borrowed; the workspace is this stream's.
        unsafe { operation::launch_batch(&mut kernel.on(stream), self.launcher.plan(), self.work.grid, &lists) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn parts_of_a_stack_are_its_block_rows() {
        let stack = Structure::new(96, 40, (16, 8), vec![0, 1, 3, 3, 5, 5, 8], vec![4, 0, 2, 1, 3, 0, 2, 4]).unwrap();
        let parts: Vec<_> = (0..3).map(|index| part_of(&stack, 3, index)).collect();
        assert_eq!(parts.iter().map(|(_, first)| *first).collect::<Vec<_>>(), [0, 3, 5]);
        assert_eq!((parts[1].0.row_ptr(), parts[1].0.col_idx()), (&[0, 0, 2][..], &[1, 3][..]));
        assert_eq!((parts[2].0.rows(), parts[2].0.nnzb()), (32, 3));
    }
}
