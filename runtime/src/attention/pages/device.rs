//! A page table on a GPU.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::Refusal;
use bsr_codegen::lists::{LengthLists, ListKernel, WrongPages};

use super::{PageShape, wrong_problem};
use crate::gpu::{Device, DeviceBuffer, DevicePtr, GpuError, ListKernels, Made, StreamRef};

/// No problem is wrong.
const NO_ERROR: u64 = u64::MAX;

/// A page table and the keys of each problem in device memory, which may change.
///
/// After a program has changed them it calls [`changed`](DevicePages::changed), and the next launch checks them and lists its
/// work by the numbers of keys, on its stream and ahead of itself; launches after that, of other layers of a model with
/// tensors of the same sizes, reuse the lists. A CUDA graph that captured a launch does so whenever it runs.
///
/// A problem that is wrong has no keys: its O is 0, and its LSE minus infinity. [`check`](DevicePages::check) reports it. No entry
/// of the table is an address: TMA takes it as a coordinate, and makes zeros of one that is no page.
#[derive(Debug)]
pub struct DevicePages {
    shape: PageShape,
    device: Device,
    /// Entries of the table, and keys of each problem, as they are given.
    table: DeviceBuffer<i32>,
    given: DeviceBuffer<i32>,
    /// Keys of each problem that is right.
    lengths: DeviceBuffer<u32>,
    /// The first wrong problem with what is wrong, and the wrong number of each problem that has one.
    error: DeviceBuffer<u64>,
    values: DeviceBuffer<i32>,
    kernels: Arc<ListKernels>,
    generation: AtomicU64,
    checked: Mutex<Option<Made>>,
}

impl DevicePages {
    /// Copies a page table to the device: `shape.batch` rows of `shape.width` entries, and as many lengths as rows.
    ///
    /// # Errors
    /// [`GpuError::Length`] for other numbers of entries or lengths; [`GpuError::OutOfMemory`].
    pub fn upload(device: &Device, shape: PageShape, table: &[i32], lengths: &[i32]) -> Result<Self, GpuError> {
        for (host, expected) in [(table.len(), shape.batch * shape.width), (lengths.len(), shape.batch)] {
            if host != expected {
                return Err(GpuError::Length { host, device: expected });
            }
        }
        let [table, given] = [DeviceBuffer::from_slice(device, table)?, DeviceBuffer::from_slice(device, lengths)?];
        Self::new(device, shape, table, given)
    }

    /// Views a page table and lengths of i32 in foreign device memory. They are neither copied nor freed.
    ///
    /// # Errors
    /// [`GpuError::Refused`] for an address that is null or not a multiple of 4; [`GpuError::OutOfMemory`].
    ///
    /// # Safety
    /// For as long as the value is used in launches (those of captured graphs too), both must be memory of this device as large
    /// as `shape` says. What is in them may be anything.
    pub unsafe fn from_raw(
        device: &Device,
        shape: PageShape,
        table: DevicePtr,
        lengths: DevicePtr,
    ) -> Result<Self, GpuError> {
        for (what, at) in [("the page table", table), ("the array of lengths", lengths)] {
            if at == 0 || !at.is_multiple_of(4) {
                let fact = format!("{what} is at address {at:#x}");
                return Err(Refusal::new(fact).help("device memory at a multiple of 4 bytes").into());
            }
        }
        // SAFETY: the caller vouches for the memory.
        let (table, given) = unsafe {
            let entries = shape.batch * shape.width;
            (DeviceBuffer::foreign(device, table, entries), DeviceBuffer::foreign(device, lengths, shape.batch))
        };
        Self::new(device, shape, table, given)
    }

    fn new(
        device: &Device,
        shape: PageShape,
        table: DeviceBuffer<i32>,
        given: DeviceBuffer<i32>,
    ) -> Result<Self, GpuError> {
        Ok(Self {
            shape,
            table,
            given,
            lengths: DeviceBuffer::zeroed(device, shape.batch)?,
            error: DeviceBuffer::from_slice(device, &[NO_ERROR])?,
            values: DeviceBuffer::zeroed(device, shape.batch)?,
            kernels: ListKernels::of(device)?,
            device: device.clone(),
            generation: AtomicU64::new(0),
            checked: Mutex::default(),
        })
    }

    /// Says that table or lengths have changed, or will have when the next launch runs. Everything that writes them must be
    /// ordered before that launch, on the GPU.
    pub fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits for the device, and reports the first wrong problem that any check so far has found, once.
    ///
    /// # Errors
    /// [`GpuError::Refused`] with what is wrong; [`GpuError::Driver`] with the error of an earlier launch.
    pub fn check(&self) -> Result<(), GpuError> {
        self.device.synchronize()?;
        let record = self.error.to_vec()?.first().copied().unwrap_or(NO_ERROR);
        let problem = (record >> 32) as usize;
        let Some(kind) = WrongPages::from_number(record as u32).filter(|_| problem < self.shape.batch) else {
            return Ok(());
        };
        let value = self.values.to_vec()?[problem];
        // SAFETY: the view is of the record, and gone before it.
        let mut view = unsafe { DeviceBuffer::<u64>::foreign(&self.device, self.error.ptr(), 1) };
        view.fill_bytes(0xFF)?;
        Err(wrong_problem(problem, kind, value, &self.shape).into())
    }

    /// The sizes.
    #[doc(hidden)]
    pub fn shape(&self) -> &PageShape {
        &self.shape
    }

    pub(crate) fn table(&self) -> DevicePtr {
        self.table.ptr()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn kernels(&self) -> &ListKernels {
        &self.kernels
    }

    /// Enqueues the check of what table and lengths are now, unless it was done on this stream: of what, and where the lengths
    /// are that it found right.
    pub(crate) fn enqueue(&self, stream: StreamRef<'_>, lists: &LengthLists) -> Result<(Made, DevicePtr), GpuError> {
        let now = Made::now(self.generation.load(Ordering::Acquire), stream)?;
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if *checked != Some(now) {
            let kernel = ListKernel::CheckPages;
            let buffers = [self.table.ptr(), self.given.ptr(), self.lengths.ptr(), self.error.ptr(), self.values.ptr()];
            let grid = (kernel.grid(self.shape.batch as u32, 1), 0);
            // SAFETY: the arrays are as long as the shape says, of which the numbers are; they live as long as this value, which
            // the caller keeps until the stream is done.
            unsafe { self.kernels.launch(kernel, grid, &buffers, &lists.check_numbers(), stream)? };
            *checked = Some(now);
        }
        Ok((now, self.lengths.ptr()))
    }
}
