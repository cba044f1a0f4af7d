//! The work of an attention whose mask lives on the GPU: kernels list it there.

use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::AttentionTiles;
use bsr_codegen::lists::{AttentionLists, AttentionRequest, ListKernel};

use super::device_mask::DeviceMask;
use super::work::{check_sharing, heads_together};
use super::{AttentionError, Shape, Sharing};
use crate::gpu::{Device, DeviceBuffer, DevicePtr, Made, StreamRef};
use crate::kernel::KernelError;

/// The lists of one mask for one kernel and one shape, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct Listed {
    mask: Arc<DeviceMask>,
    lists: AttentionLists,
    /// Steps that have a place so far; 0 between two listings.
    room: DeviceBuffer<u64>,
    steps: DeviceBuffer<u32>,
    /// {first step, steps, steps of each consumer} of every row of tiles, and the first two alone.
    records: DeviceBuffer<[u32; AttentionLists::RECORD_WORDS]>,
    step_rows: DeviceBuffer<[u32; 2]>,
    /// Tiles by their rows and columns, as they are assigned: how many to each CTA, which, and what the kernel notes.
    lengths: DeviceBuffer<u32>,
    dealt: DeviceBuffer<u8>,
    notes: DeviceBuffer<u32>,
    heads: DeviceBuffer<u32>,
    tiles: DeviceBuffer<u8>,
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
        shape.check_tiles(tiles)?;
        mask.check_shape(shape, tiles.block)?;
        check_sharing(tiles, mask.shape().sharing)?;
        let [batch, heads, key_heads, queries, keys] =
            [shape.batch, shape.heads, shape.key_heads, shape.queries, shape.keys].map(|size| size as u32);
        let sharing = mask.shape().sharing;
        let by = (
            matches!(sharing, Sharing::ByHead | Sharing::ByBoth),
            matches!(sharing, Sharing::ByProblem | Sharing::ByBoth),
        );
        let request = AttentionRequest {
            tiles: *tiles,
            batch,
            heads,
            key_heads,
            queries,
            keys,
            by,
            capacity: mask.shape().capacity as u32,
            ctas,
            together: (heads_together(shape) * shape.heads / (shape.key_heads * tiles.heads() as usize)) as u32,
        };
        let lists = AttentionLists::new(&request).map_err(KernelError::from)?;
        let rows = lists.rows() as usize;
        Ok(Self {
            mask: Arc::clone(mask),
            room: DeviceBuffer::zeroed(device, 1)?,
            steps: DeviceBuffer::zeroed(device, lists.slots().max(1))?,
            records: DeviceBuffer::zeroed(device, rows)?,
            step_rows: DeviceBuffer::zeroed(device, rows)?,
            lengths: DeviceBuffer::zeroed(device, lists.assign.head_words())?,
            dealt: DeviceBuffer::zeroed(device, lists.assign.work_bytes())?,
            notes: DeviceBuffer::zeroed(device, lists.assign.tiles() as usize)?,
            heads: DeviceBuffer::zeroed(device, lists.ctas() as usize + 1)?,
            tiles: DeviceBuffer::zeroed(device, lists.work_bytes())?,
            lists,
            made: Mutex::default(),
        })
    }

    /// CTAs that get work.
    pub(super) fn ctas(&self) -> u32 {
        self.lists.ctas()
    }

    /// Heads, tiles and steps.
    pub(super) fn places(&self) -> [DevicePtr; 3] {
        [self.heads.ptr(), self.tiles.ptr(), self.steps.ptr()]
    }

    /// Enqueues what checks the mask and lists the work, unless the lists are those of its arrays. Nothing is allocated.
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
        let (kernels, lists) = (pattern.kernels(), &self.lists);
        let (flags, partial) = self.mask.flags();
        let (room, records, step_rows) = (self.room.ptr(), self.records.ptr(), self.step_rows.ptr());
        let steps =
            [read.rows, read.columns, partial.unwrap_or(read.columns), room, self.steps.ptr(), records, step_rows];
        let (lengths, dealt) = (self.lengths.ptr(), self.dealt.ptr());
        let assign = [step_rows, self.steps.ptr(), lengths, dealt, self.notes.ptr()];
        let tiles = [lengths, dealt, records, room, self.heads.ptr(), self.tiles.ptr()];
        let grid = |kernel: ListKernel, shared| (kernel.grid(lists.rows(), lists.ctas()), shared);
        let (by_steps, by_tiles) = (ListKernel::AttentionSteps, ListKernel::AttentionTiles);
        let of_steps = grid(by_steps, lists.steps_shared_bytes());
        let of_assign = (lists.assign.ctas(), lists.assign.shared_bytes());
        // SAFETY: rows and columns are what the pattern's kernels have written ahead on this stream, the flags as long as the
        // mask says; the lists have room for all steps that the capacity allows and for every tile, and live as long as this
        // value, which the caller keeps until the stream is done.
        unsafe {
            kernels.launch(by_steps, of_steps, &steps, &lists.steps_numbers(flags), stream)?;
            kernels.launch(ListKernel::Assign, of_assign, &assign, &lists.assign.numbers(), stream)?;
            kernels.launch(by_tiles, grid(by_tiles, 64), &tiles, &lists.tiles_numbers(), stream)?;
        }
        *made = Some(now);
        Ok(())
    }
}
