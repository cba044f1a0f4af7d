//! A list of products in one launch: of one pattern or of many, of any shapes.

mod sddmm;

use std::marker::PhantomData;

use bsr_codegen::Op;

use super::arguments::{AnyArguments, AnyResults, Arguments, Returns, UntypedCall, UntypedResults};
use super::launcher::{DeviceProduct, Launcher, UploadedWork, operands};
use super::{Kernel, KernelError, PlacesOf, fit};
use crate::bind::Lists;
use crate::gpu::{CUtensorMap, DeviceBuffer, DevicePtr, NO_INPUTS, StreamRef, TensorMap, UntypedDense};
use crate::operation::{self, Operands, Product, Stored};
use crate::schedule::BatchLists;

/// Words of a tensor map.
const MAP_WORDS: usize = 16;

/// Products that a kernel with `batch = on` computes in one launch. Every one has its own operands and its own M, N and
/// K; several may share a sparse matrix or a dense factor. They run in any order and at the same time.
#[derive(Debug)]
pub struct Batch<'l, 'm> {
    launcher: &'l Launcher,
    problems: Vec<DeviceProduct<'static, 'm>>,
    /// Those of a kernel of `op = sdd`.
    sddmms: Vec<sddmm::SddmmProblem<'m>>,
}

impl<'l, 'm> Batch<'l, 'm> {
    pub(super) fn new(launcher: &'l Launcher) -> Self {
        Self { launcher, problems: vec![], sddmms: vec![] }
    }

    /// Adds a product: `(&a, &b)` and `&mut c`, as in [`Launcher::launch`]. Several products may share a factor.
    ///
    /// # Errors
    /// [`KernelError::Batch`] of a kernel for one product a launch; [`KernelError::Problem`] with the number of the
    /// problem and what a launch of it alone would answer. The batch stays as it was.
    pub fn push(&mut self, inputs: impl AnyArguments<'m>, c: impl AnyResults<'m>) -> Result<(), KernelError> {
        let (call, results) = (inputs.untyped(self.launcher.plan.spec().op), c.untyped());
        self.numbered(|this| match this.launcher.plan.spec().op {
            Op::Sdd => this.push_sddmm(&call, results),
            op => this.add(&operands(op, &call, results)?),
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
        let (call, results) = (inputs.untyped(self.launcher.plan.spec().op), c.untyped());
        match self.launcher.plan.spec().op {
            Op::Sdd => self.stacked_sddmms(&call, results, count),
            op => self.stacked_products(op, &call, results, count),
        }
    }

    fn stacked_products(
        &mut self,
        op: Op,
        call: &UntypedCall<'m>,
        results: UntypedResults<'m>,
        count: usize,
    ) -> Result<(), KernelError> {
        let before = self.problems.len();
        let Product { sparse, dense, c, inputs, second } = operands(op, call, results)?;
        let (_, dense_name) = fit::names(self.launcher.plan.spec());
        for (operand, stack) in [(dense_name, &dense), ("C", &c)] {
            if count == 0 || !stack.rows.is_multiple_of(count) {
                return Err(KernelError::Stack { operand, rows: stack.rows, count, unit: 1 });
            }
        }
        for index in 0..count {
            let part = |stack: &UntypedDense| stack.stacked(count, index).map_err(KernelError::from);
            let added =
                self.numbered(|this| this.add(&Product { sparse, dense: part(&dense)?, c: part(&c)?, inputs, second }));
            if let Err(error) = added {
                self.problems.truncate(before);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Problems so far.
    pub fn len(&self) -> usize {
        self.problems.len() + self.sddmms.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn numbered(&mut self, add: impl FnOnce(&mut Self) -> Result<(), KernelError>) -> Result<(), KernelError> {
        if !self.launcher.plan.spec().batch.is_on() {
            return Err(KernelError::Batch { batch: false });
        }
        let index = self.len();
        add(self).map_err(|source| KernelError::Problem { index, source: Box::new(source) })
    }

    /// Further operands and a second result, which kernels for lists do not have, are refused as by a launch.
    fn add(&mut self, operands: &DeviceProduct<'_, 'm>) -> Result<(), KernelError> {
        self.launcher.check(operands)?;
        let Product { sparse, dense, c, .. } = *operands;
        self.problems.push(Product { sparse, dense, c, inputs: &NO_INPUTS, second: None });
        Ok(())
    }

    /// Makes the work plan and the tensor maps, and copies them to the device: what launches need, who allocate nothing.
    ///
    /// # Errors
    /// [`KernelError::BatchOverlap`] where one problem's C overlaps an operand or the C of another;
    /// [`KernelError::TooLarge`] for more stored blocks than 32 bits count; [`KernelError::Gpu`].
    pub fn prepare(self) -> Result<PreparedBatch<'l, 'm>, KernelError> {
        let Self { launcher, problems, sddmms } = self;
        let (device, plan) = (&launcher.device, &launcher.plan);
        let (patterns, maps): (Vec<_>, _) = if sddmms.is_empty() {
            check_overlaps(spans(launcher, &problems))?;
            let blocks = problems.iter().map(|problem| problem.sparse.structure.nnzb() as u64).sum::<u64>();
            if blocks >= 1 << 31 {
                return Err(KernelError::TooLarge { what: "stored blocks of the batch", value: blocks, bits: 31 });
            }
            let pattern = |problem: &DeviceProduct<'_, 'm>| (problem.sparse.structure, problem.shapes(plan).along);
            (problems.iter().map(pattern).collect(), launcher.batch_maps(&problems)?)
        } else {
            check_overlaps(sddmm::spans(&sddmms))?;
            let (value, bits) = (sddmms.len() as u64, fit::COORDINATE_BITS);
            if value >= 1 << bits {
                return Err(KernelError::TooLarge { what: "problems of the batch", value, bits });
            }
            let patterns = sddmms.iter().map(|problem| (problem.c.structure(), problem.a.cols)).collect();
            (patterns, launcher.batch_maps(&sddmms)?)
        };
        let lists = BatchLists::new(plan, &patterns, launcher.clusters);
        let work = [&lists.heads, &lists.tiles, &lists.stage_metadata].map(Vec::as_slice);
        Ok(PreparedBatch {
            launcher,
            work: UploadedWork::new(device, lists.grid, work, lists.workspace)?,
            columns: DeviceBuffer::from_slice(device, &lists.col_idx)?,
            blocks: DeviceBuffer::from_slice(device, &lists.block_idx)?,
            maps: DeviceBuffer::from_slice(device, &maps)?,
            operands: PhantomData,
        })
    }
}

impl Launcher {
    /// The tensor maps of the problems of a batch, as words; zeros for a problem without a result.
    fn batch_maps(&self, problems: &[impl Operands<Address = DevicePtr>]) -> Result<Vec<u64>, KernelError> {
        let map = |at, map: &TensorMap| Ok::<_, KernelError>(self.maps.get(at, map)?);
        let maps = operation::maps(&self.plan, problems, map)?;
        let none = CUtensorMap { opaque: [0; MAP_WORDS] };
        Ok(maps.into_iter().flat_map(|map| map.unwrap_or(none).opaque).collect())
    }
}

/// What a problem of a batch reads or writes.
struct Span {
    /// First and last byte address (exclusive).
    range: (DevicePtr, DevicePtr),
    /// The problem.
    index: usize,
    operand: &'static str,
    /// The matrix, if its lines may lie beside those of another.
    dense: Option<UntypedDense>,
}

fn spans(launcher: &Launcher, problems: &[DeviceProduct<'_, '_>]) -> Vec<Span> {
    let (sparse_name, dense_name) = fit::names(launcher.plan.spec());
    let each = |(index, problem): (usize, &DeviceProduct<'_, '_>)| {
        let Product { sparse, dense, c, .. } = *problem;
        [
            Span { range: sparse.values, index, operand: sparse_name, dense: None },
            Span { range: dense.range(), index, operand: dense_name, dense: Some(dense) },
            Span { range: c.range(), index, operand: "C", dense: Some(c) },
        ]
    };
    problems.iter().enumerate().flat_map(each).collect()
}

/// Problems run at the same time: none may write what another reads or writes.
fn check_overlaps(mut spans: Vec<Span>) -> Result<(), KernelError> {
    spans.retain(|span| span.range.0 < span.range.1);
    spans.sort_by_key(|span| (span.range.0, span.index));
    for (at, first) in spans.iter().enumerate() {
        for second in spans[at + 1..].iter().take_while(|second| second.range.0 < first.range.1) {
            let (written, other) = match (first.operand, second.operand) {
                ("C", _) => (first, second),
                (_, "C") => (second, first),
                _ => continue,
            };
            if let (Some(c), Some(dense)) = (&written.dense, &other.dense)
                && !c.overlaps(dense)
            {
                continue;
            }
            return Err(KernelError::BatchOverlap {
                index: written.index,
                operand: other.operand,
                other: other.index,
                c: written.range.0,
                address: other.range.0,
            });
        }
    }
    Ok(())
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
        let stream = stream.into();
        let [columns, blocks] = [&self.columns, &self.blocks].map(|list| Some(list.ptr()));
        let lists = Lists { columns, blocks, maps: Some(self.maps.ptr()), ..self.work.lists(self.launcher, stream)? };
        let mut machine = self.launcher.machine(stream);
        // SAFETY: the kernel is the plan's, whose parameters these are; the work plan and the maps were made of the
        // problems' matrices, which were found to fit the kernel and stay borrowed; the workspace is this stream's.
        unsafe { operation::launch_batch(&mut machine, &self.launcher.plan, self.work.grid, &lists) }
    }
}

/// A [`Batch`] with the types of a kernel's operands.
#[derive(Debug)]
pub struct TypedBatch<'l, 'm, K> {
    batch: Batch<'l, 'm>,
    kernel: PhantomData<fn() -> K>,
}

impl<'l, 'm, K: Kernel> TypedBatch<'l, 'm, K> {
    pub(super) fn new(batch: Batch<'l, 'm>) -> Self {
        Self { batch, kernel: PhantomData }
    }

    /// As [`Batch::push`].
    ///
    /// # Errors
    /// As there.
    pub fn push(
        &mut self,
        inputs: impl Arguments<'m, K::Op, K::A, K::B, K::Further>,
        c: PlacesOf<'m, K>,
    ) -> Result<(), KernelError> {
        self.batch.push(inputs.call(), K::Returns::split(c))
    }

    /// As [`Batch::stacked`].
    ///
    /// # Errors
    /// As there.
    pub fn stacked(
        &mut self,
        inputs: impl Arguments<'m, K::Op, K::A, K::B, K::Further>,
        c: PlacesOf<'m, K>,
        count: usize,
    ) -> Result<(), KernelError> {
        self.batch.stacked(inputs.call(), K::Returns::split(c), count)
    }

    /// Problems so far.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// As [`Batch::prepare`].
    ///
    /// # Errors
    /// As there.
    pub fn prepare(self) -> Result<PreparedBatch<'l, 'm>, KernelError> {
        self.batch.prepare()
    }
}
