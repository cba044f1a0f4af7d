//! Launches on patterns that live on the GPU: their work is listed by kernels, on the stream of the launch.

use std::sync::{Mutex, PoisonError};

use arrayvec::ArrayVec;
use bsr_codegen::Plan;

use super::workspaces::Workspaces;
use crate::error::KernelError;
use crate::gpu::{CheckedIndex, Device, DeviceBuffer, DevicePattern, DevicePtr, ListKernels, Made, StreamRef};
use crate::lists::{self, Listing, Table};
use crate::machine::{Lists, Work};

/// The most patterns that are listed together: A, B and C of a product.
pub(super) const MOST_PATTERNS: usize = 3;

/// The lists of one pattern for one extent that it does not say, in memory that stays where it is.
#[derive(Debug)]
pub(crate) struct Listed {
    listing: Listing<DevicePtr>,
    /// Where they are.
    _memory: Vec<DeviceBuffer<u32>>,
    workspaces: Workspaces,
    /// What they were made of: a pattern, or several.
    made: Mutex<ArrayVec<Made, MOST_PATTERNS>>,
}

impl Listed {
    /// Allocates all that the lists of a table take.
    ///
    /// # Errors
    /// Those of an allocation.
    pub(crate) fn new(device: &Device, table: Table) -> Result<Self, KernelError> {
        let mut memory = vec![];
        let workspaces = Workspaces::new(device, table.workspace_bytes)?;
        let listing = Listing::new(table, |words| -> Result<DevicePtr, KernelError> {
            let buffer = DeviceBuffer::zeroed(device, words.max(2))?;
            let at = buffer.ptr();
            memory.push(buffer);
            Ok(at)
        })?;
        Ok(Self { listing, _memory: memory, workspaces, made: Mutex::default() })
    }

    /// Enqueues what checks a pattern and lists its work, by block columns or by block rows, unless the lists are those of its
    /// arrays: the clusters that get work, and what the launch reads. `partial` is where the partial blocks of a mask are.
    ///
    /// # Errors
    /// What a launch answers.
    pub(crate) fn enqueue(
        &self,
        stream: StreamRef<'_>,
        pattern: &DevicePattern,
        by_columns: bool,
        partial: Option<DevicePtr>,
    ) -> Result<Work<DevicePtr>, KernelError> {
        let now = pattern.now(stream)?;
        let index = pattern.enqueue(stream, now, by_columns)?;
        self.make(stream, &[now], (&[index], partial), (pattern.kernels(), pattern.device()), None)
    }

    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.workspaces
    }

    /// Enqueues the kernels that list, unless the lists are of these arrays: as [`Listed::enqueue`], of patterns that were checked. The
    /// workspace is the stream's unless one is given.
    ///
    /// # Errors
    /// What a launch answers.
    pub(crate) fn make(
        &self,
        stream: StreamRef<'_>,
        now: &[Made],
        (index, partial): (&[CheckedIndex<DevicePtr>], Option<DevicePtr>),
        (kernels, device): (&ListKernels, &Device),
        workspace: Option<DevicePtr>,
    ) -> Result<Work<DevicePtr>, KernelError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if **made != *now {
            self.listing.run(index, partial, |kernel, grid, pointers, numbers| {
                // SAFETY: rows, columns and lengths are what the kernels that check have written ahead on this stream, and partial
                // blocks as many as the mask says; the lists have room for all that their shapes say, and are kept until the
                // device is done with them.
                unsafe { kernels.launch(kernel, grid, pointers, numbers, stream) }
            })?;
            *made = now.iter().copied().collect();
        }
        let (grid, lists) = self.listing.lists(index);
        let workspace = workspace.map_or_else(|| self.workspaces.of(device, stream), Ok)?;
        Ok((grid, Lists { workspace: Some(workspace), ..lists }))
    }
}

/// Whether a kernel reads the lists of a pattern that are made on the GPU.
///
/// # Errors
/// As [`takes_device_pattern`](lists::takes_device_pattern), and [`KernelError::TooLarge`].
pub(super) fn check(plan: &Plan, pattern: &DevicePattern) -> Result<(), KernelError> {
    lists::takes_device_pattern(plan)?;
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
