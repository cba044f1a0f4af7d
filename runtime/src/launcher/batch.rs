//! A list of products in one launch: of one pattern or of many, of any shapes.

use std::borrow::Cow;
use std::marker::PhantomData;

use bsr_codegen::{Dtype, Op};

use super::Launcher;
use super::gpu::UploadedWork;
use super::memory::{self, Span};
use super::products::{product_of, sddmm_of};
use crate::Structure;
use crate::call::arguments::{AnyArguments, AnyResults, UntypedCall, UntypedResults};
use crate::error::KernelError;
use crate::gpu::{
    CUtensorMap, DeviceBuffer, DevicePtr, Fingerprint, NO_INPUTS, Stored, StreamRef, TensorMap, UntypedBsr,
    UntypedDense,
};
use crate::machine::Lists;
use crate::operation::{self, Matrices, Product, Sddmm};

/// Words of a tensor map.
const MAP_WORDS: usize = 16;

/// Products that a kernel with `batch = on` computes in one launch. Every one has its own operands and its own M, N and
/// K; several may share a sparse matrix or a dense factor. They run in any order and at the same time.
#[derive(Debug)]
pub struct Batch<'l, 'm> {
    launcher: &'l Launcher,
    problems: Vec<Problem<'m>>,
    /// What they read and write, each with the number of its problem.
    spans: Vec<(usize, Span)>,
}

/// A problem whose operands fit the kernel, without further inputs.
#[derive(Debug)]
enum Problem<'m> {
    Product(Product<'static, UntypedBsr<'m>>),
    Sddmm(Sddmm<'static, Blocks<'m>>),
}

impl Problem<'_> {
    fn operands(&self) -> &Matrices<'_, DevicePtr> {
        match self {
            Self::Product(product) => product,
            Self::Sddmm(sddmm) => sddmm,
        }
    }
}

/// The blocks of a matrix, or of a part of it.
#[derive(Debug)]
struct Blocks<'m> {
    structure: Cow<'m, Structure>,
    dtype: Dtype,
    values: (DevicePtr, DevicePtr),
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
        Self { structure: Cow::Owned(structure), dtype: stack.dtype, values, on: stack.on }
    }
}

impl<'m> From<&UntypedBsr<'m>> for Blocks<'m> {
    fn from(whole: &UntypedBsr<'m>) -> Self {
        let UntypedBsr { structure, dtype, values, on, .. } = *whole;
        Self { structure: Cow::Borrowed(structure), dtype, values, on }
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

    fn range(&self) -> (DevicePtr, DevicePtr) {
        self.values
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
        self.numbered(|this| match this.op() {
            Op::Sdd => {
                let Sddmm { a, b, c, inputs, second } = sddmm(&call, results)?;
                this.add_sddmm(Sddmm { a, b, c: Blocks::from(&c), inputs, second })
            }
            op => this.add(&product_of(op, &call, results)?),
        })
    }

    /// Adds `count` products of equal size. Of one sparse factor: the dense factor and `c` hold those of all products, one
    /// below another. Of `op = sdd`: A, B and C do; block rows of `c` belong to one product each, whose pattern they are, that
    /// of all of them, where a pattern is repeated, or one a product.
    ///
    /// # Errors
    /// As [`Batch::push`]; [`KernelError::Stack`] where the rows do not come out even, those of a sparse result in whole block
    /// rows; [`KernelError::Foreign`] where a matrix of a column-major stack does not start on 16 bytes. The batch stays as it
    /// was.
    pub fn stacked(
        &mut self,
        inputs: impl AnyArguments<'m>,
        c: impl AnyResults<'m>,
        count: usize,
    ) -> Result<(), KernelError> {
        let (call, results) = (inputs.untyped(self.op()), c.untyped());
        let (problems, spans) = (self.problems.len(), self.spans.len());
        let added = match self.op() {
            Op::Sdd => self.stacked_sddmms(&call, results, count),
            op => self.stacked_products(op, &call, results, count),
        };
        if added.is_err() {
            self.problems.truncate(problems);
            self.spans.truncate(spans);
        }
        added
    }

    fn stacked_products(
        &mut self,
        op: Op,
        call: &UntypedCall<'m>,
        results: UntypedResults<'m>,
        count: usize,
    ) -> Result<(), KernelError> {
        let Product { sparse, dense, c, inputs, second } = product_of(op, call, results)?;
        let dense_name = if op == Op::Dds { "A" } else { "B" };
        check_stacks(count, [(dense_name, dense.rows, 1), ("C", c.rows, 1)])?;
        (0..count).try_for_each(|index| {
            let part = |stack: &UntypedDense| stack.stacked(count, index).map_err(KernelError::from);
            self.numbered(|this| this.add(&Product { sparse, dense: part(&dense)?, c: part(&c)?, inputs, second }))
        })
    }

    fn stacked_sddmms(
        &mut self,
        call: &UntypedCall<'m>,
        results: UntypedResults<'m>,
        count: usize,
    ) -> Result<(), KernelError> {
        let Sddmm { a, b, c, inputs, second } = sddmm(call, results)?;
        let rows = (c.structure.rows(), c.structure.block().0);
        check_stacks(count, [("A", a.rows, 1), ("B", b.rows, 1), ("C", rows.0, rows.1)])?;
        (0..count).try_for_each(|index| {
            let part = |stack: &UntypedDense| stack.stacked(count, index).map_err(KernelError::from);
            self.numbered(|this| {
                let (a, b, c) = (part(&a)?, part(&b)?, Blocks::part_of(&c, count, index));
                this.add_sddmm(Sddmm { a, b, c, inputs, second })
            })
        })
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

    /// Further operands and a second result, which kernels for lists do not have, are refused as by a launch.
    fn add(&mut self, operands: &Product<'_, UntypedBsr<'m>>) -> Result<(), KernelError> {
        self.check(operands)?;
        let Product { sparse, dense, c, .. } = *operands;
        self.problems.push(Problem::Product(Product { sparse, dense, c, inputs: &NO_INPUTS, second: None }));
        Ok(())
    }

    fn add_sddmm(&mut self, operands: Sddmm<'_, Blocks<'m>>) -> Result<(), KernelError> {
        self.check(&operands)?;
        let Sddmm { a, b, c, .. } = operands;
        self.problems.push(Problem::Sddmm(Sddmm { a, b, c, inputs: &NO_INPUTS, second: None }));
        Ok(())
    }

    /// Whether the operands of the next problem fit.
    fn check(&mut self, operands: &Matrices<'_, DevicePtr>) -> Result<(), KernelError> {
        self.launcher.check(operands)?;
        let (index, (read, written)) = (self.problems.len(), memory::spans(self.launcher.plan(), operands));
        self.spans.extend(read.into_iter().chain(written).map(|span| (index, span)));
        Ok(())
    }

    /// Makes the work plan and the tensor maps, and copies them to the device: what launches need, who allocate nothing.
    ///
    /// # Errors
    /// [`KernelError::BatchOverlap`] where one problem's C overlaps an operand or the C of another;
    /// [`KernelError::TooLarge`] for more stored blocks than 32 bits count; [`KernelError::Gpu`].
    pub fn prepare(self) -> Result<PreparedBatch<'l, 'm>, KernelError> {
        let Self { launcher, problems, spans } = self;
        let (device, plan) = (launcher.device(), launcher.plan());
        memory::problems(spans)?;
        let operands: Vec<_> = problems.iter().map(Problem::operands).collect();
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
            operands: PhantomData,
        })
    }
}

/// The matrices of an SDDMM whose pattern the host knows.
///
/// # Errors
/// [`KernelError::Factors`] for other matrices; [`KernelError::DevicePattern`].
fn sddmm<'i, 'r>(
    call: &'i UntypedCall<'_>,
    results: UntypedResults<'r>,
) -> Result<Sddmm<'i, UntypedBsr<'r>>, KernelError> {
    let operands = sddmm_of(call, results)?;
    match operands.c.pattern {
        Some(_) => Err(KernelError::DevicePattern {
            why: "the kernel computes several products a launch".to_owned(),
            help: "a launch for each product",
        }),
        None => Ok(operands),
    }
}

/// Whether stacks of so many rows, each with what the rows of a matrix are a multiple of, are `count` matrices.
fn check_stacks<const N: usize>(count: usize, stacks: [(&'static str, usize, usize); N]) -> Result<(), KernelError> {
    let uneven = |rows: usize, unit| count == 0 || !rows.is_multiple_of(count) || !(rows / count).is_multiple_of(unit);
    match stacks.into_iter().find(|(_, rows, unit)| uneven(*rows, *unit)) {
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
        let maps = Some(self.maps.ptr());
        let lists = Lists { columns, blocks, maps, probes: kernel.rings(), ..self.work.lists(stream)? };
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
