//! The untyped launcher: what [`Loaded`](crate::kernel::Loaded) and the `bsr` command share.

mod batch;
mod cache;
mod check;
mod free;
mod listed;
mod loaded;
mod workspaces;

use std::sync::Arc;

use bsr_codegen::epilogue::Program;
use bsr_codegen::{Op, Plan, TileScheduler};

use crate::Element;
use crate::call::arguments::{AnyArguments, AnyResults, HostCall, HostCallOf, UntypedCall, UntypedResults};
use crate::call::matrix::{DeviceMatrix, UntypedMatrix};
use crate::call::operation::Operation;
use crate::epilogue::Results;
use crate::error::KernelError;
use crate::gpu::{
    Device, DeviceBsr, DeviceBuffer, DevicePtr, DeviceVector, Fingerprint, Function, Plain, Stream, StreamRef,
    UntypedBsr, UntypedDense, UploadedInputs,
};
use crate::machine::Lists;
use crate::operation::check::{Operand, block};
use crate::operation::product::{self, Shapes};
use crate::operation::{self, Product, Sddmm, program_of, sddmm};
use crate::schedule::WorkLists;
pub use batch::{Batch, PreparedBatch};
use cache::Cache;
use check::InMemory;
pub(crate) use listed::Listed;
pub(crate) use loaded::OnGpu;
pub(crate) use workspaces::Workspaces;

/// A kernel on a device and the work plans of the patterns that it has been launched with.
#[derive(Debug)]
pub struct Launcher {
    kernel: OnGpu,
    work: Cache<WorkKey, UploadedWork>,
    /// The same of patterns that live on the GPU, by their numbers.
    listed: Cache<(u64, usize), Listed>,
}

/// What a work plan was made for: a pattern, the extent that it does not say, and clusters that run at the same time.
type WorkKey = (Fingerprint, usize, u32);

/// The work of one pattern, or of a batch, on the device.
#[derive(Debug)]
struct UploadedWork {
    grid: [u32; 2],
    heads: DeviceBuffer<u32>,
    tiles: DeviceBuffer<u32>,
    stage_metadata: DeviceBuffer<u32>,
    workspaces: Workspaces,
}

impl UploadedWork {
    fn new(
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

    /// What a launch of a kernel on a stream reads of it; the workspace is the stream's.
    fn lists(&self, kernel: &OnGpu, stream: StreamRef<'_>) -> Result<Lists<DevicePtr>, KernelError> {
        Ok(Lists {
            heads: Some(self.heads.ptr()),
            tiles: Some(self.tiles.ptr()),
            stage_metadata: Some(self.stage_metadata.ptr()),
            workspace: Some(self.workspaces.of(&kernel.device, stream)?),
            probes: kernel.rings(),
            ..Lists::default()
        })
    }
}

impl Launcher {
    /// Loads `ptx`, the text of `plan`, on a device.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the driver's log if it refuses the PTX, or if the device is older than the plan's
    /// architecture or of another kind; [`KernelError::DoesNotFit`].
    pub fn load(device: &Device, plan: &Plan, ptx: &str, entry: &str) -> Result<Self, KernelError> {
        OnGpu::text(device, plan, ptx, entry).map(Self::new)
    }

    /// Loads machine code that ptxas made of the text of `plan`, whole (without `-c`: in relocatable code `setmaxnreg` is
    /// ignored, and kernels that need it spill).
    ///
    /// # Errors
    /// As [`Launcher::load`]; [`KernelError::Gpu`] for bytes that are no whole cubin, or of another architecture.
    pub fn load_cubin(device: &Device, plan: &Plan, cubin: &[u8], entry: &str) -> Result<Self, KernelError> {
        OnGpu::cubin(device, plan, cubin, entry).map(Self::new)
    }

    fn new(kernel: OnGpu) -> Self {
        Self { kernel, work: Cache::default(), listed: Cache::default() }
    }

    /// The plan it was loaded by.
    pub fn plan(&self) -> &Plan {
        &self.kernel.plan
    }

    /// The device the kernel is loaded on.
    pub fn device(&self) -> &Device {
        &self.kernel.device
    }

    /// The loaded function.
    pub fn function(&self) -> &Function {
        &self.kernel.function
    }

    /// Clusters that run at the same time; without clusters, CTAs: one or several for each multiprocessor.
    pub fn clusters(&self) -> u32 {
        self.kernel.clusters
    }

    /// What the last launch of a [probed](Plan::probed) kernel recorded, after everything on the device is done; nothing of
    /// another kernel.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn records(&self) -> Result<Option<Vec<u32>>, KernelError> {
        Ok(self.kernel.records()?)
    }

    /// Frees the work plans of all patterns so far, after everything on the device is done. They are kept until
    /// then, some kilobytes each: an application with a stream of new patterns calls this between them. A captured
    /// graph that holds a launch of this kernel must not be launched again afterwards.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn forget(&self) -> Result<(), KernelError> {
        self.device().synchronize()?;
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
        block(self.plan(), sparse.structure())?;
        match self.plan().spec().op {
            Op::Sdd => sddmm::sizes(sparse.structure(), n)?,
            Op::Dsd | Op::Dds | Op::Attention => product::sizes(self.plan(), sparse.structure(), n)?,
        }
        if let Some(pattern) = sparse.device_pattern() {
            return self.reserve_lists(pattern, n).map(drop);
        }
        if self.plan().reads_block_columns() {
            sparse.untyped().by_columns(self.device())?;
        }
        self.work(&sparse.untyped(), n).map(drop)
    }

    /// Enqueues a product of any operation and any types on `stream`; see [`Loaded::launch`](crate::kernel::Loaded::launch). Where the program does
    /// not know before it runs which factor comes first, [`ByKind`](crate::kernel::arguments::ByKind) orders them.
    ///
    /// # Errors
    /// [`KernelError::Factors`] and [`KernelError::Result`] for matrices of another operation, [`KernelError::Dtype`] for other
    /// element types; what [`Loaded::launch`](crate::kernel::Loaded::launch) answers. Nothing is launched in these cases.
    pub fn launch<'i, 'r>(
        &self,
        stream: StreamRef<'_>,
        inputs: impl AnyArguments<'i>,
        results: impl AnyResults<'r>,
    ) -> Result<(), KernelError> {
        let (call, results) = (inputs.untyped(self.plan().spec().op), results.untyped());
        if self.plan().spec().batch.is_on() {
            return Err(KernelError::Batch { batch: true });
        }
        match self.plan().spec().op {
            Op::Sdd => {
                let operands = sddmm_of(&call, results)?;
                self.enqueue(stream, &operands, &operands.c)
            }
            op => {
                let operands = product_of(op, &call, results)?;
                self.enqueue(stream, &operands, &operands.sparse)
            }
        }
    }

    /// Host matrices in, host results out: uploads, multiplies, waits, downloads; see [`Loaded::multiply`](crate::kernel::Loaded::multiply).
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub fn multiply<O: Operation, A: Element + Plain, B: Element + Plain, C: Element + Plain>(
        &self,
        call: HostCallOf<'_, O, A, B>,
    ) -> Result<Results<<O::C<C> as DeviceMatrix>::Host>, KernelError> {
        let HostCall { a, b, pattern, inputs } = call;
        let (device, spec) = (self.device(), self.plan().spec());
        let stream = Stream::new(device)?;
        let (a, b) = (O::A::<A>::upload(device, a)?, O::B::<B>::upload(device, b)?);
        let uploaded = UploadedInputs::upload(device, &inputs)?;
        let shape = self.result_shape(&a, &b)?;
        let mut c = O::result::<C>((device, stream.handle()), spec, shape, pattern, &inputs)?;
        let reduction = program_of(self.plan()).and_then(Program::reduction);
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
        let spec = self.plan().spec();
        if spec.op == Op::Sdd {
            let (m, n) = (a.shape().0, b.shape().1);
            return Ok(if spec.transpose.is_on() { (n, m) } else { (m, n) });
        }
        let (sparse, dense) = factors(spec.op, a.untyped(), b.untyped())?;
        Ok(Shapes::of(spec, sparse.structure, &Operand::from(&dense)).result)
    }

    /// A list of products for one launch.
    pub fn batch<'m>(&self) -> Batch<'_, 'm> {
        Batch::new(self)
    }

    /// Launches an operation, with the work of the pattern of `sparse` for the extent that it does not say.
    fn enqueue(
        &self,
        stream: StreamRef<'_>,
        operands: &impl InMemory,
        sparse: &UntypedBsr<'_>,
    ) -> Result<(), KernelError> {
        self.check(operands)?;
        let along = operands.pattern(self.plan()).1;
        // SAFETY: the kernel is the plan's, and the check above has found the operands to fit it; C and the second result are
        // what the caller borrowed mutably for this launch; the work plan was made for this pattern (by fingerprint, or on
        // this stream ahead of the launch, of rows and columns that are checked there) and this extent; the workspace is this
        // stream's.
        unsafe {
            operation::launch(&mut self.kernel.machine(stream), self.plan(), operands, |_| match sparse.pattern {
                Some(pattern) => self.list(stream, pattern, along),
                None => self.lists(stream, sparse, along),
            })
        }
    }

    /// Whether operands fit the kernel and each other, and where they are.
    fn check(&self, operands: &impl InMemory) -> Result<(), KernelError> {
        operands.check(self.plan())?;
        if let Some(pattern) = operands.device_pattern() {
            listed::check(self.plan(), pattern)?;
        }
        check::memory(self.plan(), self.device().info().ordinal, operands)
    }

    /// The work of a pattern that the host knows, made now or before.
    fn lists(
        &self,
        stream: StreamRef<'_>,
        sparse: &UntypedBsr<'_>,
        along: usize,
    ) -> Result<([u32; 2], Lists<DevicePtr>), KernelError> {
        let work = self.work(sparse, along)?;
        let (columns, blocks) = match self.plan().tile_scheduler() {
            // These read no index, by block rows or by block columns.
            TileScheduler::StageMetadata(_) | TileScheduler::Sddmm => (None, None),
            _ if self.plan().reads_block_columns() => {
                let (columns, blocks) = sparse.by_columns(self.device())?;
                (Some(columns), Some(blocks))
            }
            _ => (Some(sparse.col_idx), None),
        };
        let lists = work.lists(&self.kernel, stream)?;
        Ok((work.grid, Lists { columns, blocks, ..lists }))
    }

    /// The work plan for a pattern and `n` columns of the dense factor as the kernel sees it, made now or before.
    fn work(&self, sparse: &UntypedBsr<'_>, n: usize) -> Result<Arc<UploadedWork>, KernelError> {
        let clusters = self.clusters_used();
        self.work.of((sparse.fingerprint, n, clusters), || {
            let WorkLists { grid, heads, tiles, stage_metadata, workspace } =
                WorkLists::new(self.plan(), sparse.structure, n, clusters);
            let lists = [&heads, &tiles, &stage_metadata].map(Vec::as_slice);
            UploadedWork::new(self.device(), grid, lists, workspace)
        })
    }
}

/// The sparse factor and the dense one.
///
/// # Errors
/// [`KernelError::Factors`] where the operation multiplies others.
fn factors<'a>(
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
fn product_of<'i, 's>(
    op: Op,
    call: &'i UntypedCall<'s>,
    results: UntypedResults<'_>,
) -> Result<Product<'i, UntypedBsr<'s>>, KernelError> {
    let (sparse, dense) = factors(op, call.a, call.b)?;
    match results.c {
        UntypedMatrix::Dense(c) => Ok(Product { sparse, dense, c, inputs: &call.inputs, second: results.second }),
        UntypedMatrix::Sparse(_) => Err(KernelError::Result { op }),
    }
}

/// What a launch of an SDDMM is given.
///
/// # Errors
/// [`KernelError::Factors`] where not both factors are dense and the result is sparse.
fn sddmm_of<'i, 'r>(
    call: &'i UntypedCall<'_>,
    results: UntypedResults<'r>,
) -> Result<Sddmm<'i, UntypedBsr<'r>>, KernelError> {
    match (call.a, call.b, results.c) {
        (UntypedMatrix::Dense(a), UntypedMatrix::Dense(b), UntypedMatrix::Sparse(c)) => {
            Ok(Sddmm { a, b, c, inputs: &call.inputs, second: results.second })
        }
        _ => Err(KernelError::Factors { expected: Op::Sdd }),
    }
}
