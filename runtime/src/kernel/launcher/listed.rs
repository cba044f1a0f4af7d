//! Launches on patterns that live on the GPU: their work is listed by kernels, on the stream of the launch.

use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::lists::{ListKernel, ListRequest, Shape, SplitLists};
use bsr_codegen::{Mma, Pdl, Plan, Scale, SharedColumns, TileScheduler};

use super::Launcher;
use crate::Element;
use crate::bind::Lists;
use crate::gpu::{Device, DeviceBsr, DeviceBuffer, DevicePattern, DevicePtr, GpuError, Made, Plain, StreamRef};
use crate::kernel::KernelError;
use crate::schedule;

/// The lists of one pattern for one extent of C, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct ListedWork {
    assigned: AssignedTiles,
    /// What they were made of.
    made: Mutex<Option<Made>>,
}

/// What the assigning kernel writes.
#[derive(Debug)]
pub(super) struct AssignedTiles {
    pub(super) shape: Shape,
    pub(super) heads: DeviceBuffer<u32>,
    pub(super) tiles: DeviceBuffer<u8>,
    /// Where each tile goes, while the lists are made.
    dealt: DeviceBuffer<u32>,
}

impl AssignedTiles {
    pub(super) fn new(device: &Device, shape: Shape) -> Result<Self, KernelError> {
        Ok(Self {
            shape,
            heads: DeviceBuffer::zeroed(device, shape.head_words())?,
            tiles: DeviceBuffer::zeroed(device, shape.work_bytes())?,
            dealt: DeviceBuffer::zeroed(device, shape.tiles() as usize)?,
        })
    }

    /// What the assigning kernel is given.
    pub(super) fn places(&self, (rows, columns): (DevicePtr, DevicePtr)) -> [DevicePtr; 5] {
        [rows, columns, self.heads.ptr(), self.tiles.ptr(), self.dealt.ptr()]
    }

    /// Enqueues the kernel that assigns the tiles of rows.
    ///
    /// # Safety
    /// Rows and columns must be as many as the shape says, written ahead on this stream, and alive with this value until the
    /// kernel is done.
    pub(super) unsafe fn enqueue(
        &self,
        pattern: &DevicePattern,
        (rows, columns): (DevicePtr, DevicePtr),
        stream: StreamRef<'_>,
    ) -> Result<(), GpuError> {
        let pointers = self.places((rows, columns));
        let grid = (self.shape.ctas(), self.shape.shared_bytes());
        // SAFETY: the lists have room for all that the shape says; the caller vouches for rows and columns.
        unsafe { pattern.kernels().launch(ListKernel::Assign, grid, &pointers, &self.shape.numbers(), stream) }
    }
}

impl Launcher {
    /// Allocates what launches of any operation on a pattern that lives on the GPU need.
    ///
    /// # Errors
    /// [`KernelError::DevicePattern`], [`KernelError::Lists`].
    pub(super) fn reserve_lists(&self, pattern: &DevicePattern, n: usize) -> Result<(), KernelError> {
        check(&self.plan, pattern)?;
        match self.listed_tiles(pattern, n) {
            Tiles::Sampled => self.reserve_sddmm(pattern, n).map(drop),
            Tiles::Shared(shared) => self.reserve_shared(shared, pattern, n).map(drop),
            Tiles::Split(parts) => self.reserve_split(parts, pattern, n).map(drop),
            Tiles::Whole => self.reserve(pattern, n).map(drop),
        }
    }

    /// Allocates what launches on a pattern that lives on the GPU need: they then allocate nothing.
    pub(super) fn reserve(&self, pattern: &DevicePattern, n: usize) -> Result<Arc<ListedWork>, KernelError> {
        self.listed.of(pattern, n, || {
            let shape = Shape::new(&request(&self.plan, pattern, n, self.clusters))?;
            pattern.reserve(self.plan.reads_block_columns())?;
            Ok(ListedWork { assigned: AssignedTiles::new(&self.device, shape)?, made: Mutex::default() })
        })
    }

    /// Enqueues the kernels that check a matrix's pattern on the GPU and list its work for `n` columns of the dense factor
    /// (`n` rows where B is sparse, K where the result is), unless that is done: what a launch does ahead of itself. Nothing of
    /// a matrix whose pattern the host knows.
    ///
    /// # Errors
    /// As [`Launcher::prepare`].
    pub fn make_lists<T: Element + Plain>(
        &self,
        stream: StreamRef<'_>,
        sparse: &DeviceBsr<T>,
        n: usize,
    ) -> Result<(), KernelError> {
        let Some(pattern) = sparse.device_pattern() else { return Ok(()) };
        self.prepare(sparse, n)?;
        self.list(stream, pattern, n).map(drop)
    }

    /// Whether a plan's kernel reads lists that are made on the GPU, as it must for a matrix whose pattern lives there.
    ///
    /// # Errors
    /// [`KernelError::DevicePattern`] with the key that stands in the way.
    pub fn takes_device_pattern(plan: &Plan) -> Result<(), KernelError> {
        let spec = plan.spec();
        let refuse = |why: String, help| Err(KernelError::DevicePattern { why, help });
        let is_listed = match plan.tile_scheduler() {
            TileScheduler::SharedColumns(_) => !plan.reads_block_columns(),
            scheduler => matches!(scheduler, TileScheduler::Static | TileScheduler::Sddmm),
        };
        if !is_listed || spec.batch.is_on() || spec.mma != Mma::Wgmma {
            let why = match plan.tile_scheduler() {
                _ if spec.mma != Mma::Wgmma => {
                    "only kernels of mma = wgmma have been tried on lists that are made there"
                }
                TileScheduler::SharedColumns(_) => {
                    "the kernel's tiles are block columns of the sparse operand that share its rows"
                }
                TileScheduler::StageMetadata(_) => "the kernel reads stage metadata of several block rows a tile",
                TileScheduler::Attention => "an attention has a `DeviceMask`, and lists of its own",
                TileScheduler::CtaPerBlock => "the kernel has a CTA for each stored block",
                _ => "the kernel computes several products a launch",
            };
            let help = "mma = wgmma, bm (of op = dds, bk) a multiple of 64, one block row a tile, batch = off";
            return refuse(why.to_owned(), help);
        }
        if let Some(tiles) = plan.sddmm_tiles().filter(|tiles| tiles.pack > 1) {
            return refuse(
                format!("the kernel's tiles have {} block rows", tiles.pack),
                "pack = 1, or bm = 64 or more",
            );
        }
        if spec.scale == Scale::Block {
            return refuse("the kernel scales by block".to_owned(), "scale = tensor or row_col");
        }
        if spec.pdl == Pdl::Early {
            let why = "a kernel with pdl = early reads its lists while the kernels that make them may still run";
            return refuse(why.to_owned(), "pdl = on");
        }
        Ok(())
    }

    fn listed_tiles(&self, pattern: &DevicePattern, n: usize) -> Tiles {
        match self.plan.tile_scheduler() {
            TileScheduler::Sddmm => Tiles::Sampled,
            TileScheduler::SharedColumns(shared) => Tiles::Shared(shared),
            _ => {
                let request = request(&self.plan, pattern, n, self.clusters);
                SplitLists::parts(self.plan.spec().split, &request).map_or(Tiles::Whole, Tiles::Split)
            }
        }
    }

    /// Enqueues what lists the work of a pattern, unless the lists are those of its arrays, and tells the grid and where the
    /// kernel's parameters point to.
    pub(super) fn list(
        &self,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<([u32; 2], Lists<DevicePtr>), KernelError> {
        let (grid, lists) = match self.listed_tiles(pattern, n) {
            Tiles::Sampled => self.list_sddmm(stream, pattern, n),
            Tiles::Shared(shared) => self.list_shared(shared, stream, pattern, n),
            Tiles::Split(parts) => self.list_split(parts, stream, pattern, n),
            Tiles::Whole => self.list_whole(stream, pattern, n),
        }?;
        // Tiles that have all of K pass nothing on.
        let workspace = lists.workspace.or(Some(0));
        Ok((grid, Lists { workspace, probes: self.rings_at(), ..lists }))
    }

    /// The same for tiles of one block row that have all of K.
    fn list_whole(
        &self,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<([u32; 2], Lists<DevicePtr>), KernelError> {
        let work = self.reserve(pattern, n)?;
        let mut made = work.made.lock().unwrap_or_else(PoisonError::into_inner);
        let now = pattern.now(stream)?;
        let read = pattern.enqueue(stream, now, self.plan.reads_block_columns())?;
        let assigned = &work.assigned;
        if *made != Some(now) {
            // SAFETY: rows and columns are what the pattern's kernels have written ahead on this stream; they and the lists are
            // kept until `forget`, which waits for the device.
            unsafe { assigned.enqueue(pattern, (read.rows, read.columns), stream)? };
            *made = Some(now);
        }
        let lists = Lists {
            heads: Some(assigned.heads.ptr()),
            tiles: Some(assigned.tiles.ptr()),
            columns: Some(read.columns),
            blocks: Some(read.blocks),
            ..Lists::default()
        };
        Ok(([assigned.shape.clusters, 1], lists))
    }
}

/// What the tiles of a kernel are whose work is listed on the GPU.
enum Tiles {
    /// All of K of a block row, or of a slice of it.
    Whole,
    /// That in so many parts.
    Split(u32),
    /// Several block rows.
    Shared(SharedColumns),
    /// Blocks of the result.
    Sampled,
}

/// Whether a kernel reads the lists of a pattern that are made on the GPU.
///
/// # Errors
/// As [`Launcher::takes_device_pattern`], and [`KernelError::TooLarge`].
pub(super) fn check(plan: &Plan, pattern: &DevicePattern) -> Result<(), KernelError> {
    Launcher::takes_device_pattern(plan)?;
    let (block, what) = match plan.reads_block_columns() {
        true => (pattern.shape().block.1, "places for blocks x block columns"),
        false => (pattern.shape().block.0, "places for blocks x block rows"),
    };
    let rows = pattern.capacity() as u64 * block as u64;
    match rows >= 1 << 31 {
        true => Err(KernelError::TooLarge { what, value: rows, bits: 31 }),
        false => Ok(()),
    }
}

/// What a kernel's lists are asked for.
pub(super) fn request(plan: &Plan, pattern: &DevicePattern, n: usize, clusters: u32) -> ListRequest {
    let sizes = pattern.shape();
    let (rows, cols, width) = match plan.reads_block_columns() {
        true => (sizes.cols, sizes.rows, sizes.block.0),
        false => (sizes.rows, sizes.cols, sizes.block.1),
    };
    let places = pattern.capacity() * sizes.block.0 * sizes.block.1;
    ListRequest {
        tile: plan.cluster_tile(),
        rows,
        block_columns: cols.div_ceil(width.max(1)),
        n,
        group: schedule::columns_together(plan, places, cols),
        clusters,
        tile_bytes: if plan.split_form().is_some() { 32 } else { 16 },
    }
}
