//! The untyped launcher: what [`super::Loaded`] and the `bsr` command share.

mod free;
mod fused;
mod kept;
mod listed;
mod sddmm;
mod workspaces;

use std::sync::Arc;

use bsr_codegen::epilogue::Program;
use bsr_codegen::{Op, Plan, TileScheduler};

use super::arguments::{AnyArguments, AnyResults, HostCall, HostCallOf, UntypedCall, UntypedResults};
use super::batch::Batch;
use super::inputs::program_of;
use super::matrix::{DeviceMatrix, UntypedMatrix};
use super::operation::Operation;
use super::{KernelError, fit, place};
use crate::Element;
use crate::bind::Lists;
use crate::epilogue::Results;
use crate::gpu::{
    Device, DeviceBsr, DeviceBuffer, DevicePtr, DeviceVector, Fingerprint, Function, LaunchDims, Module, Plain, Stream,
    StreamRef, TensorMapCache, UntypedBsr, UntypedDense, UntypedScales, UploadedInputs,
};
use crate::machine::Gpu;
use crate::operation::{self, Operands, Product};
use crate::schedule::WorkLists;
use crate::timeline::Rings;
use kept::Kept;
pub(crate) use listed::Listed;
pub(crate) use workspaces::Workspaces;

/// A kernel on a device and the work plans of the patterns that it has been launched with.
#[derive(Debug)]
pub struct Launcher {
    pub(super) plan: Plan,
    pub(super) function: Function,
    pub(super) device: Device,
    /// Clusters that run at the same time.
    pub(super) clusters: u32,
    pub(super) maps: TensorMapCache,
    /// Of a probed kernel.
    rings: Option<Rings>,
    work: Kept<WorkKey, UploadedWork>,
    /// The same of patterns that live on the GPU, by their numbers.
    listed: Kept<(u64, usize), Listed>,
}

/// What a work plan was made for: a pattern, the extent that it does not say, and clusters that run at the same time.
type WorkKey = (Fingerprint, usize, u32);

/// The work of one pattern, or of a batch, on the device.
#[derive(Debug)]
pub(super) struct UploadedWork {
    pub(super) grid: [u32; 2],
    heads: DeviceBuffer<u32>,
    tiles: DeviceBuffer<u32>,
    stage_metadata: DeviceBuffer<u32>,
    workspaces: Workspaces,
}

impl UploadedWork {
    pub(super) fn new(
        device: &Device,
        grid: [u32; 2],
        [heads, tiles, stage_metadata]: [&[u32]; 3],
        workspace: usize,
    ) -> Result<Self, KernelError> {
        Ok(Self {
            grid,
            heads: DeviceBuffer::from_slice(device, heads)?,
            tiles: DeviceBuffer::from_slice(device, tiles)?,
            stage_metadata: DeviceBuffer::from_slice(device, stage_metadata)?,
            workspaces: Workspaces::new(device, workspace)?,
        })
    }

    /// What a launch of `launcher` on a stream reads of it; the workspace is the stream's.
    pub(super) fn lists(&self, launcher: &Launcher, stream: StreamRef<'_>) -> Result<Lists<DevicePtr>, KernelError> {
        Ok(Lists {
            heads: Some(self.heads.ptr()),
            tiles: Some(self.tiles.ptr()),
            stage_metadata: Some(self.stage_metadata.ptr()),
            workspace: Some(self.workspaces.of(&launcher.device, stream)?),
            probes: launcher.rings_at(),
            ..Lists::default()
        })
    }
}

/// The operands of one product in device memory.
pub(super) type DeviceProduct<'i, 's> = Product<'i, UntypedBsr<'s>>;

impl Launcher {
    /// Loads `ptx`, the text of `plan`, on a device.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the driver's log if it refuses the PTX, or if the device is older than the plan's
    /// architecture or of another kind; [`KernelError::DoesNotFit`].
    pub fn load(device: &Device, plan: &Plan, ptx: &str, entry: &str) -> Result<Self, KernelError> {
        device.check_target(plan.arch().target)?;
        Self::of(device, plan, &Module::load(device, ptx)?, entry)
    }

    /// Loads machine code that ptxas made of the text of `plan`, whole (without `-c`: in relocatable code `setmaxnreg` is
    /// ignored, and kernels that need it spill).
    ///
    /// # Errors
    /// As [`Launcher::load`]; [`KernelError::Gpu`] for bytes that are no whole cubin, or of another architecture.
    pub fn load_cubin(device: &Device, plan: &Plan, cubin: &[u8], entry: &str) -> Result<Self, KernelError> {
        device.check_target(plan.arch().target)?;
        Self::of(device, plan, &Module::load_cubin(device, cubin)?, entry)
    }

    fn of(device: &Device, plan: &Plan, module: &Module, entry: &str) -> Result<Self, KernelError> {
        let function = module.function(entry)?;
        let (cluster, shared_bytes) = (plan.cluster(), plan.shared_bytes());
        let dims = LaunchDims { grid: [cluster, 1], block: plan.threads(), cluster, shared_bytes, is_dependent: false };
        let clusters = function.max_active_clusters(dims)?;
        if clusters == 0 {
            return Err(KernelError::DoesNotFit { cluster, shared_bytes });
        }
        Ok(Self {
            plan: plan.clone(),
            function,
            device: device.clone(),
            clusters,
            maps: TensorMapCache::new(device),
            rings: Rings::new(device, plan)?,
            work: Kept::default(),
            listed: Kept::default(),
        })
    }

    /// The plan it was loaded by.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device the kernel is loaded on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The loaded function.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// Clusters that run at the same time; without clusters, CTAs: one or several for each multiprocessor.
    pub fn clusters(&self) -> u32 {
        self.clusters
    }

    /// What the last launch of a [probed](Plan::probed) kernel recorded, after everything on the device is done; nothing of
    /// another kernel.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn records(&self) -> Result<Option<Vec<u32>>, KernelError> {
        Ok(self.rings.as_ref().map(Rings::words).transpose()?)
    }

    /// Where the rings of a probed kernel are.
    pub(super) fn rings_at(&self) -> Option<DevicePtr> {
        self.rings.as_ref().map(Rings::ptr)
    }

    /// Frees the work plans of all patterns so far, after everything on the device is done. They are kept until
    /// then, some kilobytes each: an application with a stream of new patterns calls this between them. A captured
    /// graph that holds a launch of this kernel must not be launched again afterwards.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn forget(&self) -> Result<(), KernelError> {
        self.device.synchronize()?;
        self.work.clear();
        self.listed.clear();
        Ok(())
    }

    /// Makes the work plan for a pattern ahead of the first launch: that of the sparse factor and `n` columns of the dense
    /// one (`n` rows where B is sparse), or that of a sparse result and `n` elements of K.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn prepare<T: Element + Plain>(&self, sparse: &DeviceBsr<T>, n: usize) -> Result<(), KernelError> {
        fit::block(&self.plan, sparse.structure())?;
        match self.plan.spec().op {
            Op::Sdd => super::sddmm::sizes(sparse.structure(), n)?,
            Op::Dsd | Op::Dds | Op::Attention => fit::sizes(&self.plan, sparse.structure(), n)?,
        }
        if let Some(pattern) = sparse.device_pattern() {
            return self.reserve_lists(pattern, n).map(drop);
        }
        if self.plan.reads_block_columns() {
            sparse.untyped().by_columns(&self.device)?;
        }
        self.work(&sparse.untyped(), n).map(drop)
    }

    /// Enqueues a product of any operation and any types on `stream`; see [`super::Loaded::launch`]. Where the program does
    /// not know before it runs which factor comes first, [`ByKind`](super::arguments::ByKind) orders them.
    ///
    /// # Errors
    /// [`KernelError::Factors`] and [`KernelError::Result`] for matrices of another operation, [`KernelError::Dtype`] for other
    /// element types; what [`super::Loaded::launch`] answers. Nothing is launched in these cases.
    pub fn launch<'i, 'r>(
        &self,
        stream: StreamRef<'_>,
        inputs: impl AnyArguments<'i>,
        results: impl AnyResults<'r>,
    ) -> Result<(), KernelError> {
        let (call, results) = (inputs.untyped(self.plan.spec().op), results.untyped());
        if self.plan.spec().batch.is_on() {
            return Err(KernelError::Batch { batch: true });
        }
        match self.plan.spec().op {
            Op::Sdd => self.enqueue_sddmm(stream, &sddmm::operands(&call, results)?),
            op => self.enqueue(stream, &operands(op, &call, results)?),
        }
    }

    /// Host matrices in, host results out: uploads, multiplies, waits, downloads; see [`super::Loaded::multiply`].
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn multiply<O: Operation, A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        call: HostCallOf<'_, O, A, B>,
    ) -> Result<Results<<O::C<C> as DeviceMatrix>::Host>, KernelError> {
        let HostCall { a, b, pattern, inputs } = call;
        let (device, spec) = (&self.device, self.plan.spec());
        let stream = Stream::new(device)?;
        let (a, b) = (O::A::<A>::upload(device, a)?, O::B::<B>::upload(device, b)?);
        let uploaded = UploadedInputs::upload(device, &inputs)?;
        let shape = self.result_shape(&a, &b)?;
        let mut c = O::result::<C>((device, stream.handle()), spec, shape, pattern, &inputs)?;
        let reduction = program_of(&self.plan).and_then(Program::reduction);
        let mut rows = reduction.map(|_| DeviceVector::zeros(device, c.shape().0)).transpose()?;
        self.launch(stream.handle(), (&a, &b, uploaded.inputs()), (&mut c, rows.as_mut()))?;
        stream.synchronize()?;
        Ok(Results { c: c.download()?, rows: rows.map(|rows| rows.download()).transpose()? })
    }

    /// Rows and columns of C.
    ///
    /// # Errors
    /// [`KernelError::Factors`] where the kernel multiplies others.
    pub fn result_shape(&self, a: &impl DeviceMatrix, b: &impl DeviceMatrix) -> Result<(usize, usize), KernelError> {
        let spec = self.plan.spec();
        if spec.op == Op::Sdd {
            let (m, n) = (a.shape().0, b.shape().1);
            return Ok(if spec.transpose.is_on() { (n, m) } else { (m, n) });
        }
        let (sparse, dense) = factors(spec.op, a.untyped(), b.untyped())?;
        Ok(fit::Shapes::of(spec, sparse.structure, &fit::Operand::from(&dense)).result)
    }

    /// A list of products for one launch.
    pub fn batch<'m>(&self) -> Batch<'_, 'm> {
        Batch::new(self)
    }

    fn enqueue(&self, stream: StreamRef<'_>, operands: &DeviceProduct<'_, '_>) -> Result<(), KernelError> {
        let shapes = self.check(operands)?;
        // SAFETY: the kernel is the plan's, and the checks above have found the operands to fit it; C and the second result
        // are what the caller borrowed mutably for this launch.
        unsafe { self.launch_on(stream, operands, &operands.sparse, shapes.along) }
    }

    /// Launches an operation on operands that were checked, with the work of a pattern for the extent that it does not say.
    ///
    /// # Safety
    /// As [`operation::launch`].
    unsafe fn launch_on(
        &self,
        stream: StreamRef<'_>,
        operands: &impl Operands<Address = DevicePtr>,
        sparse: &UntypedBsr<'_>,
        along: usize,
    ) -> Result<(), KernelError> {
        // SAFETY: as the caller vouches; the work plan was made for this pattern (by fingerprint, or on this stream ahead of
        // the launch, of rows and columns that are checked there) and this extent; the workspace is this stream's.
        unsafe {
            operation::launch(&mut self.machine(stream), &self.plan, operands, |_| match sparse.pattern {
                Some(pattern) => self.list(stream, pattern, along),
                None => self.lists(stream, sparse, along),
            })
        }
    }

    /// The GPU with this kernel and one stream.
    pub(super) fn machine<'l>(&'l self, stream: StreamRef<'l>) -> Gpu<'l> {
        Gpu { device: &self.device, function: &self.function, maps: &self.maps, stream }
    }

    /// The work of a pattern that the host knows, made now or before.
    fn lists(
        &self,
        stream: StreamRef<'_>,
        sparse: &UntypedBsr<'_>,
        along: usize,
    ) -> Result<([u32; 2], Lists<DevicePtr>), KernelError> {
        let work = self.work(sparse, along)?;
        let (columns, blocks) = match self.plan.tile_scheduler() {
            // These read no index, by block rows or by block columns.
            TileScheduler::StageMetadata(_) | TileScheduler::Sddmm => (None, None),
            _ if self.plan.reads_block_columns() => {
                let (columns, blocks) = sparse.by_columns(&self.device)?;
                (Some(columns), Some(blocks))
            }
            _ => (Some(sparse.col_idx), None),
        };
        let lists = work.lists(self, stream)?;
        Ok((work.grid, Lists { columns, blocks, ..lists }))
    }

    /// The work plan for a pattern and `n` columns of the dense factor as the kernel sees it, made now or before.
    fn work(&self, sparse: &UntypedBsr<'_>, n: usize) -> Result<Arc<UploadedWork>, KernelError> {
        let clusters = self.clusters_used();
        self.work.of((sparse.fingerprint, n, clusters), || {
            let WorkLists { grid, heads, tiles, stage_metadata, workspace } =
                WorkLists::new(&self.plan, sparse.structure, n, clusters);
            let lists = [&heads, &tiles, &stage_metadata].map(Vec::as_slice);
            UploadedWork::new(&self.device, grid, lists, workspace)
        })
    }

    /// Whether the operands fit the kernel and each other.
    pub(super) fn check(&self, operands: &DeviceProduct<'_, '_>) -> Result<fit::Shapes, KernelError> {
        let Product { sparse, dense, c, .. } = operands;
        let (sparse_name, dense_name) = fit::names(self.plan.spec());
        place::check(
            self.device.info().ordinal,
            [(sparse_name, Some(sparse.on)), (dense_name, dense.on), ("C", c.on)],
        )?;
        let scales = operands.inputs.scales.unwrap_or(UntypedScales::NONE);
        let (right, product) = (fit::Operand::from(dense), fit::Operand::from(c));
        let shapes = fit::operands(&self.plan, (sparse.dtype, sparse.structure), &right, &product)?;
        if let Some(pattern) = sparse.pattern {
            listed::check(&self.plan, pattern)?;
        }
        fit::scales(&self.plan, sparse.structure, shapes.along, scales.kind, [scales.a.len, scales.b.len])?;
        if self.plan.stores_by_tma() {
            check_window(c)?;
        }
        let c_range = c.range();
        if c.overlaps(dense) {
            check_overlap(dense_name, c_range, dense.range())?;
        }
        check_overlap(sparse_name, c_range, sparse.values)?;
        check_overlap("the block columns", c_range, sparse.index)?;
        check_overlap("the scales of A", c_range, scales.a.range())?;
        check_overlap("the scales of B", c_range, scales.b.range())?;
        self.check_inputs(operands)?;
        Ok(shapes)
    }
}

/// The sparse factor and the dense one.
///
/// # Errors
/// [`KernelError::Factors`] where the operation multiplies others.
pub(super) fn factors<'a>(
    op: Op,
    a: UntypedMatrix<'a>,
    b: UntypedMatrix<'a>,
) -> Result<(UntypedBsr<'a>, UntypedDense), KernelError> {
    match (op, a, b) {
        (Op::Dsd, UntypedMatrix::Sparse(sparse), UntypedMatrix::Dense(dense))
        | (Op::Dds, UntypedMatrix::Dense(dense), UntypedMatrix::Sparse(sparse)) => Ok((sparse, dense)),
        (expected, ..) => Err(KernelError::Factors { expected }),
    }
}

/// What a launch of an operation with a dense result is given.
///
/// # Errors
/// [`KernelError::Factors`], [`KernelError::Result`].
pub(super) fn operands<'i, 's>(
    op: Op,
    call: &'i UntypedCall<'s>,
    results: UntypedResults<'_>,
) -> Result<DeviceProduct<'i, 's>, KernelError> {
    let (sparse, dense) = factors(op, call.a, call.b)?;
    match results.c {
        UntypedMatrix::Dense(c) => Ok(Product { sparse, dense, c, inputs: &call.inputs, second: results.second }),
        UntypedMatrix::Sparse(_) => Err(KernelError::Result { op }),
    }
}

/// TMA writes whole 16-byte vectors: the end of a line that is no multiple of them must be C's own padding.
fn check_window(c: &UntypedDense) -> Result<(), KernelError> {
    let (line, bytes) = (c.line(), c.dtype.bytes() as usize);
    let padded = line.max(1).next_multiple_of(16 / bytes);
    if c.foreign && line != padded && c.ld != padded {
        return Err(KernelError::Window { line, bytes, ld: c.ld, padded });
    }
    Ok(())
}

pub(super) fn check_overlap(operand: &'static str, c: (u64, u64), other: (u64, u64)) -> Result<(), KernelError> {
    check_overlap_of("C", operand, c, other)
}

/// No result may lie where something is read while it is written.
fn check_overlap_of(
    result: &'static str,
    operand: &'static str,
    c: (u64, u64),
    other: (u64, u64),
) -> Result<(), KernelError> {
    if c.0 < other.1 && other.0 < c.1 {
        return Err(KernelError::Overlap { result, operand, c: c.0, c_end: c.1, other: other.0, other_end: other.1 });
    }
    Ok(())
}
