//! A list of products in one launch: of one pattern or of many, of any shapes.

mod sddmm;

use std::marker::PhantomData;

use bsr_codegen::Op;

use super::arguments::{AnyArguments, AnyResults, Arguments, Returns, UntypedCall, UntypedResults};
use super::launcher::{DeviceProduct, Launcher, Workspaces, operands};
use super::{Kernel, KernelError, PlacesOf, fit};
use crate::bind::Lists;
use crate::gpu::{CUtensorMap, DeviceBuffer, DevicePtr, NO_INPUTS, StreamRef, TensorMap, UntypedDense};
use crate::operation::{self, Operands, Product};
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
        if !sddmms.is_empty() {
            return sddmm::prepare(launcher, &sddmms);
        }
        check_overlaps(launcher, &problems)?;
        let blocks = problems.iter().map(|operands| operands.sparse.structure.nnzb() as u64).sum::<u64>();
        if blocks >= 1 << 31 {
            return Err(KernelError::TooLarge { what: "stored blocks of the batch", value: blocks, bits: 31 });
        }
        let plan = &launcher.plan;
        let pattern = |operands: &DeviceProduct<'_, 'm>| (operands.sparse.structure, operands.shapes(plan).along);
        let patterns: Vec<_> = problems.iter().map(pattern).collect();
        let lists = BatchLists::new(plan, &patterns, launcher.clusters);
        let maps = launcher.batch_maps(&problems)?;
        let device = &launcher.device;
        Ok(PreparedBatch {
            launcher,
            grid: lists.grid,
            heads: DeviceBuffer::from_slice(device, &lists.heads)?,
            tiles: DeviceBuffer::from_slice(device, &lists.tiles)?,
            columns: DeviceBuffer::from_slice(device, &lists.col_idx)?,
            blocks: DeviceBuffer::from_slice(device, &lists.block_idx)?,
            stage_metadata: DeviceBuffer::from_slice(device, &lists.stage_metadata)?,
            maps: DeviceBuffer::from_slice(device, &maps)?,
            workspaces: Workspaces::new(device, lists.workspace)?,
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

/// Problems run at the same time: none may write what another reads or writes.
fn check_overlaps(launcher: &Launcher, problems: &[DeviceProduct<'_, '_>]) -> Result<(), KernelError> {
    let (sparse_name, dense_name) = fit::names(launcher.plan.spec());
    // What is written and read, by where it begins.
    let mut spans = vec![];
    for (index, operands) in problems.iter().enumerate() {
        let (values, dense, c) = (operands.sparse.values, operands.dense.range(), operands.c.range());
        spans.push((values.0, values.1, index, sparse_name, None));
        spans.push((dense.0, dense.1, index, dense_name, Some(operands.dense)));
        spans.push((c.0, c.1, index, "C", Some(operands.c)));
    }
    spans.sort_by_key(|span| (span.0, span.2));
    for (at, first) in spans.iter().enumerate() {
        for second in spans[at + 1..].iter().take_while(|second| second.0 < first.1) {
            let (written, other) = match (first.3, second.3) {
                ("C", _) => (first, second),
                (_, "C") => (second, first),
                _ => continue,
            };
            let apart = match (&written.4, &other.4) {
                (Some(c), Some(dense)) => !c.overlaps(dense),
                // The values are contiguous.
                _ => written.0 >= other.1 || other.0 >= written.1,
            };
            if !apart {
                return Err(KernelError::BatchOverlap {
                    index: written.2,
                    operand: other.3,
                    other: other.2,
                    c: written.0,
                    address: other.0,
                });
            }
        }
    }
    Ok(())
}

/// A batch whose work plan and tensor maps are on the device.
#[derive(Debug)]
pub struct PreparedBatch<'l, 'm> {
    launcher: &'l Launcher,
    grid: [u32; 2],
    heads: DeviceBuffer<u32>,
    tiles: DeviceBuffer<u32>,
    columns: DeviceBuffer<u32>,
    blocks: DeviceBuffer<u32>,
    stage_metadata: DeviceBuffer<u32>,
    maps: DeviceBuffer<u64>,
    workspaces: Workspaces,
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
        if self.grid[0] == 0 {
            return Ok(());
        }
        let stream = stream.into();
        let lists = Lists {
            heads: Some(self.heads.ptr()),
            tiles: Some(self.tiles.ptr()),
            columns: Some(self.columns.ptr()),
            blocks: Some(self.blocks.ptr()),
            stage_metadata: Some(self.stage_metadata.ptr()),
            maps: Some(self.maps.ptr()),
            workspace: Some(self.workspaces.of(&self.launcher.device, stream)?),
            probes: self.launcher.rings_at(),
        };
        let mut machine = self.launcher.machine(stream);
        // SAFETY: the kernel is the plan's, whose parameters these are; the work plan and the maps were made of the
        // problems' matrices, which were found to fit the kernel and stay borrowed; the workspace is this stream's.
        unsafe { operation::launch_batch(&mut machine, &self.launcher.plan, self.grid, &lists) }
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
