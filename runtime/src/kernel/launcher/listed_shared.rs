//! Products whose block rows share tiles, on patterns that live on the GPU.

use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::SharedColumns;
use bsr_codegen::lists::{ListKernel, SharedLists};

use super::listed::request;
use super::{Launcher, Places};
use crate::gpu::{Device, DeviceBuffer, DevicePattern, Made, StreamRef};
use crate::kernel::KernelError;

/// The lists of one pattern for one extent of C, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct ListedShared {
    lists: SharedLists,
    heads: DeviceBuffer<u32>,
    tiles: DeviceBuffer<u8>,
    /// Where the union of every group of block rows begins, and how many columns it has.
    groups: DeviceBuffer<[u32; 2]>,
    unions: DeviceBuffer<u32>,
    /// The tiles by their groups and columns, and where each goes, while the lists are made.
    assigned: DeviceBuffer<u8>,
    dealt: DeviceBuffer<u32>,
    /// What they were made of.
    made: Mutex<Option<Made>>,
}

impl ListedShared {
    fn new(device: &Device, lists: SharedLists) -> Result<Self, KernelError> {
        let assign = &lists.assign;
        Ok(Self {
            lists,
            heads: DeviceBuffer::zeroed(device, assign.head_words())?,
            tiles: DeviceBuffer::zeroed(device, lists.work_bytes())?,
            groups: DeviceBuffer::zeroed(device, lists.groups() as usize)?,
            unions: DeviceBuffer::zeroed(device, lists.union_words())?,
            assigned: DeviceBuffer::zeroed(device, assign.work_bytes())?,
            dealt: DeviceBuffer::zeroed(device, assign.tiles() as usize)?,
            made: Mutex::default(),
        })
    }
}

impl Launcher {
    /// Allocates what launches on a pattern that lives on the GPU need: they then allocate nothing.
    pub(super) fn reserve_shared(
        &self,
        shared: SharedColumns,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<Arc<ListedShared>, KernelError> {
        let key = (pattern.id(), n);
        let kept = || self.listed_shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = kept().get(&key) {
            return Ok(Arc::clone(work));
        }
        let width = pattern.shape().block.1;
        let lists = SharedLists::new(shared, &request(&self.plan, pattern, n, self.clusters), width)?;
        let made = Arc::new(ListedShared::new(&self.device, lists)?);
        Ok(Arc::clone(kept().entry(key).or_insert(made)))
    }

    /// Enqueues what lists the tiles of a pattern, unless the lists are those of its arrays, and tells the grid and where the
    /// kernel's parameters point to.
    pub(super) fn list_shared(
        &self,
        shared: SharedColumns,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<([u32; 2], Places), KernelError> {
        let work = self.reserve_shared(shared, pattern, n)?;
        let mut made = work.made.lock().unwrap_or_else(PoisonError::into_inner);
        let now = pattern.now(stream)?;
        let read = pattern.enqueue(stream, now, false)?;
        let (heads, tiles, unions) = (work.heads.ptr(), work.tiles.ptr(), work.unions.ptr());
        if *made != Some(now) {
            let (kernels, lists, assign) = (pattern.kernels(), &work.lists, &work.lists.assign);
            let (groups, assigned) = (work.groups.ptr(), work.assigned.ptr());
            let by_union = [read.rows, read.columns, groups, unions];
            let by_group = [groups, unions, heads, assigned, work.dealt.ptr()];
            let by_tile = [heads, assigned, read.rows, tiles];
            let union_grid = (lists.groups(), lists.union_shared_bytes());
            let assign_grid = (assign.ctas(), assign.shared_bytes());
            // SAFETY: rows and columns are what the pattern's kernels have written ahead on this stream; unions have room for
            // all columns, and the lists for all tiles; all of it is kept until `forget`, which waits for the device.
            unsafe {
                kernels.launch(ListKernel::SharedUnions, union_grid, &by_union, &lists.union_numbers(), stream)?;
                kernels.launch(ListKernel::Assign, assign_grid, &by_group, &assign.numbers(), stream)?;
                kernels.launch(
                    ListKernel::SharedTiles,
                    (assign.clusters, 0),
                    &by_tile,
                    &lists.tile_numbers(),
                    stream,
                )?;
            }
            *made = Some(now);
        }
        let places = Places { heads, tiles, stage_metadata: unions, ..Places::default() };
        Ok(([work.lists.assign.clusters, 1], places))
    }
}
