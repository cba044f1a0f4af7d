//! SDDMMs whose result has its pattern on the GPU.

use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::lists::{ListKernel, SddmmShape};

use super::Launcher;
use crate::bind::Lists;
use crate::gpu::{Device, DeviceBuffer, DevicePattern, DevicePtr, Made, StreamRef};
use crate::kernel::KernelError;

/// The lists of one pattern for one K, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct ListedTiles {
    shape: SddmmShape,
    heads: DeviceBuffer<u32>,
    tiles: DeviceBuffer<u8>,
    /// The first tile of each block row.
    first: DeviceBuffer<u32>,
    /// What they were made of.
    made: Mutex<Option<Made>>,
}

impl ListedTiles {
    fn new(device: &Device, shape: SddmmShape) -> Result<Self, KernelError> {
        Ok(Self {
            shape,
            heads: DeviceBuffer::zeroed(device, shape.ctas as usize)?,
            tiles: DeviceBuffer::zeroed(device, shape.work_bytes())?,
            first: DeviceBuffer::zeroed(device, shape.block_rows as usize)?,
            made: Mutex::default(),
        })
    }
}

impl Launcher {
    /// Allocates what launches into a pattern that lives on the GPU need: they then allocate nothing.
    pub(super) fn reserve_sddmm(&self, pattern: &DevicePattern, k: usize) -> Result<Arc<ListedTiles>, KernelError> {
        self.listed_sddmms.of(pattern, k, || {
            let Some(tiles) = self.plan.sddmm_tiles() else {
                return Err(KernelError::Result { op: self.plan.spec().op });
            };
            let shape = SddmmShape {
                tiles,
                block_rows: pattern.shape().block_rows() as u32,
                k: k as u32,
                ctas: self.clusters,
                capacity: pattern.capacity() as u32,
            };
            ListedTiles::new(&self.device, shape.checked()?)
        })
    }

    /// Enqueues what lists the tiles of a pattern, unless the lists are those of its arrays, and tells the grid and where the
    /// kernel's parameters point to.
    pub(super) fn list_sddmm(
        &self,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        k: usize,
    ) -> Result<([u32; 2], Lists<DevicePtr>), KernelError> {
        let work = self.reserve_sddmm(pattern, k)?;
        let mut made = work.made.lock().unwrap_or_else(PoisonError::into_inner);
        let now = pattern.now(stream)?;
        let read = pattern.enqueue(stream, now, false)?;
        let (heads, tiles, first) = (work.heads.ptr(), work.tiles.ptr(), work.first.ptr());
        if *made != Some(now) && work.shape.block_rows > 0 {
            let (kernels, numbers) = (pattern.kernels(), work.shape.numbers());
            let (by_rows, by_tiles) = (ListKernel::SddmmRows, ListKernel::SddmmTiles);
            let grid = (by_tiles.grid(work.shape.block_rows, 1), 0);
            // SAFETY: rows and columns are what the pattern's kernels have written ahead on this stream; the lists have room
            // for all tiles that the capacity allows, and are kept until `forget`, which waits for the device.
            unsafe {
                kernels.launch(by_rows, (1, 128), &[read.rows, first, heads, tiles], &numbers, stream)?;
                kernels.launch(by_tiles, grid, &[read.rows, read.columns, first, tiles], &numbers, stream)?;
            }
            *made = Some(now);
        }
        let lists = Lists { heads: Some(heads), tiles: Some(tiles), ..Lists::default() };
        Ok(([work.shape.ctas, 1], lists))
    }
}
