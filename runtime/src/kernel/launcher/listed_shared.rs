//! Products whose block rows share tiles, on patterns that live on the GPU.

use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::SharedColumns;
use bsr_codegen::lists::{ListKernel, SharedLists};

use super::Launcher;
use super::listed::{AssignedTiles, request};
use crate::bind::Lists;
use crate::gpu::{Device, DeviceBuffer, DevicePattern, DevicePtr, Made, StreamRef};
use crate::kernel::KernelError;

/// The lists of one pattern for one extent of C, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct ListedShared {
    lists: SharedLists,
    tiles: DeviceBuffer<u8>,
    /// A bit for each block column of every block row.
    bits: DeviceBuffer<u32>,
    /// The block rows of every group.
    members: DeviceBuffer<[u32; 4]>,
    /// Where the union of their columns begins, and how many there are.
    ends: DeviceBuffer<[u32; 2]>,
    /// The same with what its tiles cost.
    costs: DeviceBuffer<[u32; 2]>,
    unions: DeviceBuffer<u32>,
    /// The tiles by their groups and columns, and the heads of the lists.
    assigned: AssignedTiles,
    /// What they were made of.
    made: Mutex<Option<Made>>,
}

impl ListedShared {
    fn new(device: &Device, lists: SharedLists) -> Result<Self, KernelError> {
        Ok(Self {
            lists,
            tiles: DeviceBuffer::zeroed(device, lists.work_bytes())?,
            bits: DeviceBuffer::zeroed(device, lists.bit_words())?,
            members: DeviceBuffer::zeroed(device, lists.groups() as usize)?,
            ends: DeviceBuffer::zeroed(device, lists.groups() as usize)?,
            costs: DeviceBuffer::zeroed(device, lists.groups() as usize)?,
            unions: DeviceBuffer::zeroed(device, lists.union_words())?,
            assigned: AssignedTiles::new(device, lists.assign)?,
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
        self.listed_shared.of(pattern, n, || {
            let (request, width) = (request(&self.plan, pattern, n, self.clusters), pattern.shape().block.1);
            ListedShared::new(&self.device, SharedLists::new(shared, &request, width)?)
        })
    }

    /// Enqueues what lists the tiles of a pattern, unless the lists are those of its arrays, and tells the grid and where the
    /// kernel's parameters point to.
    pub(super) fn list_shared(
        &self,
        shared: SharedColumns,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<([u32; 2], Lists<DevicePtr>), KernelError> {
        let work = self.reserve_shared(shared, pattern, n)?;
        let mut made = work.made.lock().unwrap_or_else(PoisonError::into_inner);
        let now = pattern.now(stream)?;
        let read = pattern.enqueue(stream, now, false)?;
        let (lists, assigned) = (&work.lists, &work.assigned);
        let (heads, tiles, unions) = (assigned.heads.ptr(), work.tiles.ptr(), work.unions.ptr());
        let clusters = assigned.shape.clusters;
        if *made != Some(now) {
            let kernels = pattern.kernels();
            let (bits, members) = (work.bits.ptr(), work.members.ptr());
            let (ends, costs) = (work.ends.ptr(), work.costs.ptr());
            let by_row = [read.rows, read.columns, bits];
            let by_union = [bits, members, ends, costs, unions];
            let by_tile = [heads, assigned.tiles.ptr(), read.rows, members, ends, unions, tiles];
            // SAFETY: rows and columns are what the pattern's kernels have written ahead on this stream; bits and unions have room
            // for all columns of all rows, and the lists for all tiles; all of it is kept until `forget`, which waits for the
            // device.
            unsafe {
                let launch = |kernel, grid, pointers: &[_], numbers: &[_]| {
                    kernels.launch(kernel, grid, pointers, numbers, stream)
                };
                launch(ListKernel::SharedBits, lists.bit_grid(), &by_row, &lists.bit_numbers())?;
                launch(ListKernel::SharedGroups, lists.group_grid(), &[bits, members], &lists.group_numbers())?;
                launch(ListKernel::SharedUnions, lists.union_grid(), &by_union, &lists.union_numbers())?;
                assigned.enqueue(pattern, (costs, unions), stream)?;
                launch(ListKernel::SharedTiles, (clusters, 0), &by_tile, &lists.tile_numbers())?;
            }
            *made = Some(now);
        }
        let lists = Lists { heads: Some(heads), tiles: Some(tiles), stage_metadata: Some(unions), ..Lists::default() };
        Ok(([clusters, 1], lists))
    }
}
