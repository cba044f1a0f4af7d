//! Products whose tiles are divided along K, on patterns that live on the GPU.

use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use bsr_codegen::lists::{ListKernel, Shape, SplitLists};

use super::listed::{AssignedTiles, request};
use super::{Launcher, Workspaces};
use crate::bind::Lists;
use crate::gpu::{Device, DeviceBuffer, DevicePattern, DevicePtr, Made, StreamRef};
use crate::kernel::KernelError;

/// The lists of one pattern for one extent of C, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct ListedSplit {
    lists: SplitLists,
    heads: DeviceBuffer<u32>,
    tiles: DeviceBuffer<u8>,
    own: Parts,
    others: Parts,
    workspaces: Workspaces,
    /// What they were made of.
    made: Mutex<Option<Made>>,
}

/// Rows of parts of tiles, and these as they are assigned.
#[derive(Debug)]
struct Parts {
    rows: DeviceBuffer<[u32; 2]>,
    assigned: AssignedTiles,
}

impl Parts {
    fn new(device: &Device, shape: Shape) -> Result<Self, KernelError> {
        let rows = DeviceBuffer::zeroed(device, shape.tile_rows as usize)?;
        Ok(Self { rows, assigned: AssignedTiles::new(device, shape)? })
    }

    /// What the assigning kernel is given.
    fn places(&self, columns: DevicePtr) -> [DevicePtr; 5] {
        self.assigned.places((self.rows.ptr(), columns))
    }
}

impl ListedSplit {
    fn new(device: &Device, lists: SplitLists, place_bytes: usize) -> Result<Self, KernelError> {
        Ok(Self {
            lists,
            heads: DeviceBuffer::zeroed(device, lists.head_words())?,
            tiles: DeviceBuffer::zeroed(device, lists.work_bytes())?,
            own: Parts::new(device, lists.own)?,
            others: Parts::new(device, lists.others)?,
            workspaces: Workspaces::new(device, lists.places() * place_bytes)?,
            made: Mutex::default(),
        })
    }
}

impl Launcher {
    /// Allocates what launches on a pattern that lives on the GPU need: they then allocate nothing.
    pub(super) fn reserve_split(
        &self,
        parts: u32,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<Arc<ListedSplit>, KernelError> {
        self.listed_split.of(pattern, n, || {
            pattern.reserve(self.plan.reads_block_columns())?;
            let lists = SplitLists::new(&request(&self.plan, pattern, n, self.clusters), parts)?;
            let place_bytes = self.plan.split_form().map_or(0, |form| form.partial_bytes as usize);
            ListedSplit::new(&self.device, lists, place_bytes)
        })
    }

    /// Enqueues what lists the parts of the tiles of a pattern, unless the lists are those of its arrays, and tells the grid
    /// and where the kernel's parameters point to.
    pub(super) fn list_split(
        &self,
        parts: u32,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        n: usize,
    ) -> Result<([u32; 2], Lists<DevicePtr>), KernelError> {
        let work = self.reserve_split(parts, pattern, n)?;
        let mut made = work.made.lock().unwrap_or_else(PoisonError::into_inner);
        let now = pattern.now(stream)?;
        let read = pattern.enqueue(stream, now, self.plan.reads_block_columns())?;
        let (lists, heads, tiles) = (&work.lists, work.heads.ptr(), work.tiles.ptr());
        if *made != Some(now) {
            let kernels = pattern.kernels();
            let (by_row, assign, by_tile) = (ListKernel::SplitRows, ListKernel::AssignParts, ListKernel::SplitTiles);
            let (own, others) = (&work.own, &work.others);
            let row_grid = (by_row.grid(lists.rows().0, 1), 0);
            let divided = [read.rows, own.rows.ptr(), others.rows.ptr()];
            let [other_heads, own_heads] = [others, own].map(|parts| parts.assigned.heads.ptr());
            let [other_tiles, own_tiles] = [others, own].map(|parts| parts.assigned.tiles.ptr());
            let written = [read.rows, other_heads, other_tiles, own_heads, own_tiles, heads, tiles];
            // SAFETY: rows and columns are what the pattern's kernels have written ahead on this stream; the lists have room
            // for all that their shapes say, and are kept until `forget`, which waits for the device.
            unsafe {
                kernels.launch(by_row, row_grid, &divided, &lists.row_numbers(), stream)?;
                let assigned = own.places(read.columns).into_iter().chain(others.places(read.columns));
                let assigned: ArrayVec<DevicePtr, 10> = assigned.collect();
                kernels.launch(assign, lists.assign_grid(), &assigned, &lists.assign_numbers(), stream)?;
                kernels.launch(by_tile, (lists.clusters(), 0), &written, &lists.tile_numbers(), stream)?;
            }
            *made = Some(now);
        }
        let workspace = work.workspaces.of(&self.device, stream)?;
        let made = Lists {
            heads: Some(heads),
            tiles: Some(tiles),
            columns: Some(read.columns),
            blocks: Some(read.blocks),
            workspace: Some(workspace),
            ..Lists::default()
        };
        Ok(([lists.clusters(), 1], made))
    }
}
