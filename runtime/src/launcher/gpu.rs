//! A kernel on a GPU, and the work that is cached for it.

use std::sync::Arc;

use bsr_codegen::Plan;

use super::cache::Cache;
use super::listed::{self, Listed};
use super::workspaces::Workspaces;
use super::{Launcher, Machine, memory};
use crate::error::KernelError;
use crate::gpu::{
    Device, DeviceBuffer, DevicePattern, DevicePtr, Fingerprint, Function, GpuError, LaunchDims, LoadOptions, Module,
    Stored, StreamRef, TensorMapCache, UntypedBsr,
};
use crate::lists::{self, Table};
use crate::machine::{Lists, OnStream, Work};
use crate::operation::check::block_layout;
use crate::operation::{self, Matrices};
use crate::schedule::WorkLists;
use crate::timeline::Rings;

/// A kernel on a GPU.
#[derive(Debug)]
pub struct Gpu {
    pub(super) function: Function,
    pub(crate) device: Device,
    /// Clusters that run at the same time.
    pub(super) clusters: u32,
    pub(super) maps: TensorMapCache,
    /// Of a probed kernel.
    rings: Option<Rings>,
    work: Cache<WorkKey, UploadedWork>,
    /// The same of patterns that live on the GPU, by their numbers.
    listed: Cache<(u64, usize), Listed>,
    /// The same of pairs of blocks.
    pub(super) pairs: Cache<PairsKey, UploadedWork>,
    /// The same of pairs of blocks of patterns that live on the GPU.
    pub(super) listed_pairs: Cache<([u64; 2], Option<u64>), Listed>,
}

/// What a work plan was made for: a pattern, the extent that it does not say, and clusters that run at the same time.
type WorkKey = (Fingerprint, usize, u32);

/// The same of pairs of blocks: the patterns of A, B and a C in blocks, and clusters.
pub(super) type PairsKey = ([Fingerprint; 2], Option<Fingerprint>, u32);

/// The work of one pattern, or of a batch, on the device.
#[derive(Debug)]
pub(crate) struct UploadedWork {
    pub(crate) grid: [u32; 2],
    heads: DeviceBuffer<u32>,
    tiles: DeviceBuffer<u32>,
    stage_metadata: DeviceBuffer<u32>,
    /// The blocks of B and of A of each pair, of a product of two sparse factors.
    pairs: Option<[DeviceBuffer<i32>; 2]>,
    workspaces: Workspaces,
}

impl UploadedWork {
    pub(crate) fn new(
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
            pairs: None,
            workspaces: Workspaces::new(device, workspace)?,
        })
    }

    /// Heads and tiles that are on the device already.
    pub(crate) fn of_buffers(
        device: &Device,
        grid: [u32; 2],
        [heads, tiles]: [DeviceBuffer<u32>; 2],
    ) -> Result<Self, KernelError> {
        let (stage_metadata, workspaces) = (DeviceBuffer::from_slice(device, &[])?, Workspaces::new(device, 0)?);
        Ok(Self { grid, heads, tiles, stage_metadata, pairs: None, workspaces })
    }

    /// The same, on pairs of blocks of B and of A.
    pub(super) fn with_pairs(self, pairs: [DeviceBuffer<i32>; 2]) -> Self {
        Self { pairs: Some(pairs), ..self }
    }

    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.workspaces
    }

    /// What a launch on a stream reads of it; the workspace is the stream's.
    pub(crate) fn lists(&self, stream: StreamRef<'_>) -> Result<Lists<DevicePtr>, KernelError> {
        self.lists_in(stream, None)
    }

    /// The same; the workspace is the stream's unless one is given.
    pub(crate) fn lists_in(
        &self,
        stream: StreamRef<'_>,
        workspace: Option<DevicePtr>,
    ) -> Result<Lists<DevicePtr>, KernelError> {
        let workspace = workspace.map_or_else(|| self.workspaces.of(self.heads.device(), stream), Ok)?;
        let [columns, blocks] = match &self.pairs {
            Some(pairs) => pairs.each_ref().map(|list| Some(list.ptr())),
            None => [None; 2],
        };
        Ok(Lists {
            columns,
            blocks,
            heads: Some(self.heads.ptr()),
            tiles: Some(self.tiles.ptr()),
            stage_metadata: Some(self.stage_metadata.ptr()),
            workspace: Some(workspace),
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
        Gpu::new(device, plan, entry, || Module::load_with(device, ptx, LoadOptions::of(plan.spec())))
            .map(|gpu| Self::new(plan.clone(), gpu))
    }

    /// Loads machine code that ptxas made of the text of `plan`, whole (without `-c`: in relocatable code `setmaxnreg` is
    /// ignored, and kernels that need it spill).
    ///
    /// # Errors
    /// As [`Launcher::load`]; [`KernelError::Gpu`] for bytes that are no whole cubin, or of another architecture.
    pub fn load_cubin(device: &Device, plan: &Plan, cubin: &[u8], entry: &str) -> Result<Self, KernelError> {
        Gpu::new(device, plan, entry, || Module::load_cubin(device, cubin)).map(|gpu| Self::new(plan.clone(), gpu))
    }

    /// The device the kernel is loaded on.
    pub fn device(&self) -> &Device {
        &self.machine().device
    }

    /// The loaded function.
    pub fn function(&self) -> &Function {
        &self.machine().function
    }

    /// Clusters that run at the same time; without clusters, CTAs: one or several for each multiprocessor.
    pub fn clusters(&self) -> u32 {
        self.machine().clusters
    }

    /// What the last launch of a [probed](Plan::probed) kernel recorded, after everything on the device is done; nothing of
    /// another kernel.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn records(&self) -> Result<Option<Vec<u32>>, KernelError> {
        Ok(self.machine().rings.as_ref().map(Rings::words).transpose()?)
    }

    /// Frees the work plans of all patterns so far, after everything on the device is done. They are kept until
    /// then, some kilobytes each: an application with a stream of new patterns calls this between them. A captured
    /// graph that holds a launch of this kernel must not be launched again afterwards.
    ///
    /// # Errors
    /// [`KernelError::Gpu`] with the error of an earlier launch, if one failed.
    pub fn forget(&self) -> Result<(), KernelError> {
        self.device().synchronize()?;
        self.machine().work.clear();
        self.machine().listed.clear();
        self.machine().pairs.clear();
        self.machine().listed_pairs.clear();
        Ok(())
    }
}

impl Gpu {
    fn new(
        device: &Device,
        plan: &Plan,
        entry: &str,
        load: impl FnOnce() -> Result<Module, GpuError>,
    ) -> Result<Self, KernelError> {
        device.check_target(plan.arch().target)?;
        let function = load()?.function(entry)?;
        let (cluster, shared_bytes) = (plan.cluster(), plan.shared_bytes());
        let dims = LaunchDims { grid: [cluster, 1], block: plan.threads(), cluster, shared_bytes, is_dependent: false };
        let clusters = function.max_active_clusters(dims)?;
        if clusters == 0 {
            return Err(KernelError::DoesNotFit { cluster, shared_bytes });
        }
        let (maps, rings) = (TensorMapCache::new(device), Rings::new(device, plan)?);
        let (work, listed, pairs) = (Cache::default(), Cache::default(), Cache::default());
        let listed_pairs = Cache::default();
        Ok(Self { function, device: device.clone(), clusters, maps, rings, work, listed, pairs, listed_pairs })
    }

    /// A launch of this kernel on a stream.
    pub(crate) fn on<'l>(&'l self, stream: StreamRef<'l>) -> OnStream<'l> {
        OnStream { device: &self.device, function: &self.function, maps: &self.maps, stream }
    }

    /// Where the rings of a probed kernel are.
    pub(crate) fn rings(&self) -> Option<DevicePtr> {
        self.rings.as_ref().map(Rings::ptr)
    }

    /// The work plan for a pattern and `n` columns of the dense factor as the kernel sees it, made now or before.
    pub(super) fn work(
        &self,
        plan: &Plan,
        sparse: &UntypedBsr<'_>,
        n: usize,
    ) -> Result<Arc<UploadedWork>, KernelError> {
        let clusters = self.clusters_used();
        self.work.of((sparse.fingerprint, n, clusters), || {
            let WorkLists { grid, heads, tiles, stage_metadata, workspace } =
                WorkLists::new(plan, sparse.structure, n, clusters);
            let lists = [&heads, &tiles, &stage_metadata].map(Vec::as_slice);
            UploadedWork::new(&self.device, grid, lists, workspace)
        })
    }

    /// What the lists of a pattern that lives on the GPU take, allocated now or before.
    ///
    /// # Errors
    /// [`KernelError::Lists`].
    pub(super) fn listed(&self, plan: &Plan, pattern: &DevicePattern, n: usize) -> Result<Arc<Listed>, KernelError> {
        self.listed.of((pattern.id(), n), || {
            let (sizes, capacity) = (pattern.shape(), pattern.capacity());
            let values = capacity * sizes.block.0 * sizes.block.1;
            let request = lists::request(plan, (sizes.rows, sizes.cols), sizes.block, values, (n, self.clusters));
            let table = Table::of(plan, &request, (sizes.block_rows(), capacity))?;
            pattern.reserve(lists::reads_block_columns(plan))?;
            Listed::new(&self.device, table)
        })
    }

    /// Enqueues what lists the work of a pattern, unless the lists are those of its arrays: the clusters that get work, and
    /// what the launch reads.
    pub(super) fn list(
        &self,
        plan: &Plan,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<Work<DevicePtr>, KernelError> {
        let work = self.listed(plan, pattern, n)?;
        let (grid, lists) = work.enqueue(stream, pattern, lists::reads_block_columns(plan), None)?;
        Ok((grid, Lists { probes: self.rings(), ..lists }))
    }
}

impl Machine for Gpu {
    type Address = DevicePtr;
    type Error = KernelError;
    type Session<'l> = OnStream<'l>;
    type Blocks<'m> = UntypedBsr<'m>;

    fn clusters(&self) -> u32 {
        self.clusters
    }

    fn check(&self, plan: &Plan, operands: &Matrices<'_, DevicePtr>) -> Result<(), KernelError> {
        let blocks = operands.blocks(plan);
        blocks.iter().filter_map(|(_, blocks)| blocks.pattern()).try_for_each(|on| listed::check(plan, on))?;
        blocks.iter().try_for_each(|(name, blocks)| block_layout(plan, name, blocks.layout()))?;
        memory::check(plan, self.device.info().ordinal, operands)
    }

    fn lists(
        &self,
        session: &mut OnStream<'_>,
        plan: &Plan,
        of: operation::Listed<'_, UntypedBsr<'_>>,
    ) -> Result<Work<DevicePtr>, KernelError> {
        let (blocks, along) = match of {
            operation::Listed::Blocks(blocks, along) => (blocks, along),
            operation::Listed::Pairs(a, b, c) => {
                let (grid, lists) = self.list_pairs(plan, session.stream, (a, b, c))?;
                return Ok((grid, Lists { probes: self.rings(), ..lists }));
            }
        };
        if let Some(pattern) = blocks.pattern() {
            return self.list(plan, session.stream, pattern, along);
        }
        let work = self.work(plan, blocks, along)?;
        let (columns, blocks) = match (plan.tile_scheduler().reads_index(), plan.reads_block_columns()) {
            (false, _) => (None, None),
            (true, true) => {
                let (columns, blocks) = blocks.by_columns(&self.device)?;
                (Some(columns), Some(blocks))
            }
            (true, false) => (Some(blocks.col_idx), None),
        };
        Ok((work.grid, Lists { columns, blocks, probes: self.rings(), ..work.lists(session.stream)? }))
    }
}
