//! The work of an attention whose mask lives on the GPU: kernels list it there.

use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::AttentionTiles;
use bsr_codegen::lists::AttentionLists;

use super::device_mask::DeviceMask;
use super::list_launches::{launches, lists, memory};
use super::{AttentionError, Shape};
use crate::gpu::{Device, DeviceBuffer, DevicePtr, Made, StreamRef};

/// The lists of one mask for one kernel and one shape, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct Listed {
    mask: Arc<DeviceMask>,
    lists: AttentionLists,
    /// As [`memory`] says.
    memory: Vec<DeviceBuffer<u8>>,
    /// What they were made of.
    made: Mutex<Option<Made>>,
}

impl Listed {
    /// Allocates all that listing takes.
    ///
    /// # Errors
    /// A mask that is not of this shape and kernel; more than the kernels count; memory.
    pub(super) fn new(
        device: &Device,
        tiles: &AttentionTiles,
        mask: &Arc<DeviceMask>,
        shape: &Shape,
        ctas: u32,
    ) -> Result<Self, AttentionError> {
        mask.check_shape(shape, tiles.block)?;
        let lists = lists(tiles, shape, (mask.shape().sharing, mask.shape().capacity), ctas)?;
        let allocated = memory(&lists).map(|bytes| DeviceBuffer::zeroed(device, bytes.max(8)));
        let memory = allocated.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { mask: Arc::clone(mask), lists, memory, made: Mutex::default() })
    }

    /// CTAs that get work.
    pub(super) fn ctas(&self) -> u32 {
        self.lists.ctas()
    }

    /// Heads, tiles and steps.
    pub(super) fn places(&self) -> [DevicePtr; 3] {
        let [.., steps, heads, tiles] = self.pointers();
        [heads, tiles, steps]
    }

    fn pointers(&self) -> [DevicePtr; 9] {
        std::array::from_fn(|at| self.memory[at].ptr())
    }

    /// Enqueues what checks the mask and lists the work, unless the lists are those of its arrays. Nothing is allocated there.
    ///
    /// # Errors
    /// What a launch answers.
    pub(super) fn enqueue(&self, stream: StreamRef<'_>) -> Result<(), AttentionError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let pattern = self.mask.pattern();
        let now = pattern.now(stream)?;
        let read = pattern.enqueue(stream, now, false)?;
        if *made == Some(now) {
            return Ok(());
        }
        let (flags, partial) = self.mask.flags();
        let checked = [read.rows, read.columns, partial.unwrap_or(read.columns)];
        for (kernel, grid, pointers, numbers) in launches(&self.lists, flags, checked, self.pointers()) {
            // SAFETY: rows and columns are what the pattern's kernels have written ahead on this stream, the flags as long as
            // the mask says; the lists have room for all steps that the capacity allows and for every tile, and live as long as
            // this value, which the caller keeps until the stream is done.
            unsafe { pattern.kernels().launch(kernel, grid, &pointers, &numbers, stream)? };
        }
        *made = Some(now);
        Ok(())
    }
}
