//! Launches on patterns that live on the GPU: their work is listed by kernels, on the stream of the launch.

use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::{Mma, Pdl, Plan, Scale, TileScheduler};

use super::{Launcher, Workspaces};
use crate::Element;
use crate::bind::Lists;
use crate::gpu::{DeviceBsr, DeviceBuffer, DevicePattern, DevicePtr, Made, Plain, StreamRef};
use crate::kernel::KernelError;
use crate::lists::{self, Listing};

/// The lists of one pattern for one extent that it does not say, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct Listed {
    listing: Listing<DevicePtr>,
    /// Where they are.
    _memory: Vec<DeviceBuffer<u32>>,
    workspaces: Workspaces,
    /// What they were made of.
    made: Mutex<Option<Made>>,
}

impl Launcher {
    /// Allocates what launches of any operation on a pattern that lives on the GPU need: they then allocate nothing.
    ///
    /// # Errors
    /// [`KernelError::DevicePattern`], [`KernelError::Lists`].
    pub(super) fn reserve_lists(&self, pattern: &DevicePattern, n: usize) -> Result<Arc<Listed>, KernelError> {
        check(&self.plan, pattern)?;
        self.reserve(pattern, n)
    }

    fn reserve(&self, pattern: &DevicePattern, n: usize) -> Result<Arc<Listed>, KernelError> {
        self.listed.of((pattern.id(), n), || {
            let (sizes, capacity) = (pattern.shape(), pattern.capacity());
            let values = capacity * sizes.block.0 * sizes.block.1;
            let extent = (n, self.clusters);
            let request = lists::request(&self.plan, (sizes.rows, sizes.cols), sizes.block, values, extent);
            let mut memory = vec![];
            let alloc = |words| -> Result<DevicePtr, KernelError> {
                let buffer = DeviceBuffer::zeroed(&self.device, words)?;
                let at = buffer.ptr();
                memory.push(buffer);
                Ok(at)
            };
            let listing = Listing::new(&self.plan, &request, (sizes.block_rows(), capacity), alloc)?;
            pattern.reserve(lists::reads_block_columns(&self.plan))?;
            let workspaces = Workspaces::new(&self.device, listing.workspace_bytes(&self.plan))?;
            Ok(Listed { listing, _memory: memory, workspaces, made: Mutex::default() })
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

    /// Enqueues what lists the work of a pattern, unless the lists are those of its arrays: the clusters that get work, and
    /// what the launch reads.
    pub(super) fn list(
        &self,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<([u32; 2], Lists<DevicePtr>), KernelError> {
        let work = self.reserve(pattern, n)?;
        let mut made = work.made.lock().unwrap_or_else(PoisonError::into_inner);
        let now = pattern.now(stream)?;
        let index = pattern.enqueue(stream, now, lists::reads_block_columns(&self.plan))?;
        if *made != Some(now) {
            work.listing.run(&index, |kernel, grid, pointers, numbers| {
                // SAFETY: rows and columns are what the pattern's kernels have written ahead on this stream; the lists have room
                // for all that their shapes say, and are kept until `forget`, which waits for the device.
                unsafe { pattern.kernels().launch(kernel, grid, pointers, numbers, stream) }
            })?;
            *made = Some(now);
        }
        let (grid, lists) = work.listing.lists(&index);
        let workspace = Some(work.workspaces.of(&self.device, stream)?);
        Ok((grid, Lists { workspace, probes: self.rings_at(), ..lists }))
    }
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
