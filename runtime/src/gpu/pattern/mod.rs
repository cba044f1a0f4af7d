//! Patterns that live on the GPU: where the blocks of a matrix are, as device arrays that may change between launches.
//!
//! The host knows shape, block and a capacity. Kernels of ours check the arrays, transpose them where a kernel reads block
//! columns, and make the work lists; nothing is copied to the host, so that a CUDA graph can capture it all.

mod arrays;
mod error;
mod factors;
mod kernels;
mod made;
mod shape;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use bsr_codegen::lists::IndexWidth;

use arrays::Arrays;
use factors::Factors;
pub(crate) use kernels::ListKernels;
pub(crate) use made::CheckedIndex;
use made::{Checked, Transposed};
pub use shape::PatternShape;

use super::buffer::{DeviceBuffer, DevicePtr};
use super::device::Device;
use super::error::GpuError;
use super::foreign::misplaced;
use super::stream::StreamRef;
use crate::Structure;
use error::no_shape;

/// Row pointers and block columns in device memory, which may change: their number too, up to a capacity.
///
/// After it has changed them, a program calls [`changed`](DevicePattern::changed). The next launch that uses the pattern
/// then enqueues the kernels that check it and list its work, on its own stream and ahead of itself; launches after that
/// reuse the lists. A CUDA graph that captured such a launch makes the lists whenever it runs, of whatever the arrays hold
/// then.
///
/// A block row that is wrong has no blocks: a product has zeros in its rows, as if none was stored.
/// It is told by [`check`](DevicePattern::check), which waits for the device. Nothing that lies in the arrays is used as an
/// address before it was checked.
///
/// The lists of a pattern lie in one place. Launches that use it on several streams must be ordered with each other by the
/// caller, as those that write one matrix must be.
#[derive(Debug)]
pub struct DevicePattern {
    shape: PatternShape,
    /// The shape with no block: what the host knows.
    structure: Structure,
    device: Device,
    arrays: Arrays,
    /// Of whose product the arrays are made, if they are.
    factors: Option<Factors>,
    kernels: Arc<ListKernels>,
    checked: Checked,
    transposed: Mutex<Option<Arc<Transposed>>>,
    /// Tells this pattern from every other of the program.
    id: u64,
    /// Goes up when the arrays have changed.
    generation: AtomicU64,
    /// For which generation, and on which stream, the arrays were checked and transposed.
    made: Mutex<[Option<Made>; 2]>,
}

/// Of which arrays something was made, and on which stream. What a capture recorded is made when its graph runs, and
/// counts within the capture alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    generation: u64,
    stream: usize,
    capture: Option<u64>,
}

impl Made {
    /// What is made now on a stream, of the arrays after so many changes.
    pub(crate) fn now(generation: u64, stream: StreamRef<'_>) -> Result<Self, GpuError> {
        Ok(Self { generation, stream: stream.raw().addr(), capture: stream.capture_id()? })
    }
}

impl DevicePattern {
    /// Copies the pattern of a matrix to the device, with room for `capacity` blocks, at least those that there are.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`]; [`GpuError::Refused`] for sizes that a pattern on the GPU cannot have.
    pub fn upload(device: &Device, structure: &Structure, capacity: usize) -> Result<Self, GpuError> {
        let capacity = capacity.max(structure.nnzb());
        let shape = PatternShape { rows: structure.rows(), cols: structure.cols(), block: structure.block(), capacity };
        Self::new(device, shape, |device| Arrays::upload(device, structure, capacity))
    }

    /// Copies a mask to the device: a byte for every block, row by row, which is stored if it is not 0.
    ///
    /// # Errors
    /// As [`DevicePattern::upload`]; [`GpuError::Length`] for a mask of another length.
    pub fn upload_mask(device: &Device, shape: PatternShape, mask: &[u8]) -> Result<Self, GpuError> {
        let bytes = shape.block_rows() * shape.block_cols();
        if mask.len() != bytes {
            return Err(GpuError::Length { host: mask.len(), device: bytes });
        }
        Self::new(device, shape, |device| Arrays::mask(device, &shape, DeviceBuffer::from_slice(device, mask)?))
    }

    /// Views row pointers and block columns that lie in foreign device memory, as PyTorch has them. They are neither copied
    /// nor freed.
    ///
    /// # Errors
    /// As [`DevicePattern::upload`]; [`GpuError::Refused`] for an address that is null or not aligned.
    ///
    /// # Safety
    /// For as long as the pattern is used in launches (those of captured graphs too), `row_ptr` must be memory of this device
    /// of one integer more than there are block rows, and `col_idx` of `shape.capacity`. What lies there may be anything.
    pub unsafe fn from_raw(
        device: &Device,
        shape: PatternShape,
        width: IndexWidth,
        (row_ptr, col_idx): (DevicePtr, DevicePtr),
    ) -> Result<Self, GpuError> {
        Self::new(device, shape, |device| {
            // SAFETY: the caller vouches for the memory.
            unsafe { Arrays::foreign(device, &shape, width, (row_ptr, col_idx)) }
        })
    }

    /// Views a mask that lies in foreign device memory: see [`DevicePattern::upload_mask`].
    ///
    /// # Errors
    /// As [`DevicePattern::from_raw`].
    ///
    /// # Safety
    /// For as long as the pattern is used in launches, `mask` must be memory of this device of a byte for every block.
    pub unsafe fn from_raw_mask(device: &Device, shape: PatternShape, mask: DevicePtr) -> Result<Self, GpuError> {
        Self::new(device, shape, |device| {
            if mask == 0 {
                return Err(misplaced("an array of a pattern is", mask, 1).into());
            }
            // SAFETY: the caller vouches for the memory.
            let mask = unsafe { DeviceBuffer::foreign(device, mask, shape.block_rows() * shape.block_cols()) };
            Arrays::mask(device, &shape, mask)
        })
    }

    /// The pattern of the product of two patterns: the blocks of C for which `A[i, k]` and `B[k, j]` are both stored for some k,
    /// up to `capacity`. It is made on the GPU whenever either of them has [changed](DevicePattern::changed). More blocks than the
    /// capacity are reported by its [`check`](DevicePattern::check), and their rows have none.
    ///
    /// # Errors
    /// [`GpuError::Refused`] for patterns whose matrices do not multiply or that are on two devices; as
    /// [`DevicePattern::upload`].
    pub fn product(a: &Arc<Self>, b: &Arc<Self>, capacity: usize) -> Result<Self, GpuError> {
        a.structure.multiplies(&b.structure)?;
        if !a.device.is(&b.device) {
            return Err(error::two_devices().into());
        }
        let block = (a.shape.block.0, b.shape.block.1);
        let shape = PatternShape { rows: a.shape.rows, cols: b.shape.cols, block, capacity };
        let made = Self::new(&a.device, shape, |device| {
            Arrays::mask(device, &shape, DeviceBuffer::zeroed(device, shape.block_rows() * shape.block_cols())?)
        })?;
        Ok(Self { factors: Some(Factors::new(&a.device, [Arc::clone(a), Arc::clone(b)])?), ..made })
    }

    fn new(
        device: &Device,
        shape: PatternShape,
        arrays: impl FnOnce(&Device) -> Result<Arrays, GpuError>,
    ) -> Result<Self, GpuError> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let structure = Structure::empty(shape.rows, shape.cols, shape.block).map_err(no_shape)?;
        error::check_shape(&shape)?;
        Ok(Self {
            shape,
            structure,
            arrays: arrays(device)?,
            factors: None,
            kernels: ListKernels::of(device)?,
            checked: Checked::new(device, &shape)?,
            transposed: Mutex::default(),
            device: device.clone(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            generation: AtomicU64::new(0),
            made: Mutex::default(),
        })
    }

    /// Says that the arrays have changed, or will have when the next launch on this pattern runs: it makes the lists anew.
    /// Everything that writes the arrays must be ordered before that launch, on the GPU.
    pub fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Copies another pattern of the same shape into arrays that this value owns, after what is enqueued on `stream`, and
    /// waits for it. It counts as a [change](DevicePattern::changed).
    ///
    /// # Errors
    /// [`GpuError::Refused`] for another shape, more blocks than the capacity, or memory that is not this value's.
    pub fn replace_on(&self, structure: &Structure, stream: StreamRef<'_>) -> Result<(), GpuError> {
        let same = (structure.rows(), structure.cols(), structure.block())
            == (self.shape.rows, self.shape.cols, self.shape.block);
        if !same || structure.nnzb() > self.shape.capacity {
            return Err(error::not_replaced(structure.nnzb(), self.shape.capacity, same).into());
        }
        self.arrays.replace(structure, stream)?;
        self.changed();
        Ok(())
    }

    /// Copies a mask over the one that this value owns, after what is enqueued on `stream`, and waits for it. It counts as a
    /// [change](DevicePattern::changed).
    ///
    /// # Errors
    /// [`GpuError::Length`] for a mask of another length; [`GpuError::Refused`] where this value owns no mask.
    pub fn replace_mask_on(&self, mask: &[u8], stream: StreamRef<'_>) -> Result<(), GpuError> {
        if self.factors.is_some() {
            return Err(error::not_owned().into());
        }
        self.arrays.replace_mask(mask, stream)?;
        self.changed();
        Ok(())
    }

    /// Waits for the device, and tells the first wrong block row that any check so far has found, once.
    ///
    /// # Errors
    /// [`GpuError::Refused`] with what is wrong; [`GpuError::Driver`] with the error of an earlier launch.
    pub fn check(&self) -> Result<(), GpuError> {
        self.device.synchronize()?;
        match self.checked.take_error(&self.shape)? {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// The pattern as it was when it was checked last, after all work on the device. A wrong row has no blocks.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch; [`GpuError::Refused`] where rows overlap.
    pub fn download(&self) -> Result<Structure, GpuError> {
        self.device.synchronize()?;
        let (row_ptr, col_idx) = self.checked.to_host()?;
        Structure::new(self.shape.rows, self.shape.cols, self.shape.block, row_ptr, col_idx)
            .map_err(|error| no_shape(error).into())
    }

    /// The sizes.
    pub fn shape(&self) -> &PatternShape {
        &self.shape
    }

    /// The most blocks that are ever stored.
    pub fn capacity(&self) -> usize {
        self.shape.capacity
    }

    /// The device it lies on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Where row pointers and block columns lie, and the width of their integers.
    pub fn arrays(&self) -> (DevicePtr, DevicePtr, IndexWidth) {
        self.arrays.places()
    }

    /// Where the mask lies that they are made of, if they are.
    pub fn mask(&self) -> Option<DevicePtr> {
        self.arrays.mask_place()
    }

    /// The shape alone, without blocks.
    pub(crate) fn structure(&self) -> &Structure {
        &self.structure
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn kernels(&self) -> &ListKernels {
        &self.kernels
    }

    /// First and last byte address (exclusive) of the columns that kernels read.
    pub(crate) fn columns_range(&self) -> (DevicePtr, DevicePtr) {
        self.checked.columns_range()
    }

    /// What is made now on a stream is of these arrays.
    pub(crate) fn now(&self, stream: StreamRef<'_>) -> Result<Made, GpuError> {
        Made::now(self.generation(), stream)
    }

    /// How often the arrays have changed, or those that they are made of.
    fn generation(&self) -> u64 {
        let of_factors = self.factors.as_ref().map_or(0, Factors::generation);
        self.generation.load(Ordering::Acquire) + of_factors
    }

    /// Allocates what the transposed index takes, if it is wanted.
    pub(crate) fn reserve(&self, by_columns: bool) -> Result<(), GpuError> {
        if by_columns { self.by_columns().map(drop) } else { Ok(()) }
    }

    fn by_columns(&self) -> Result<Arc<Transposed>, GpuError> {
        let mut transposed = self.transposed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*transposed {
            Some(transposed) => Ok(Arc::clone(transposed)),
            None => Ok(Arc::clone(transposed.insert(Arc::new(Transposed::new(&self.device, &self.shape)?)))),
        }
    }

    /// Enqueues what must run before the lists are made of `now`: the check, and the transposed index where a kernel reads
    /// block columns. What was made of the same arrays on the same stream is not made again.
    pub(crate) fn enqueue(
        &self,
        stream: StreamRef<'_>,
        now: Made,
        by_columns: bool,
    ) -> Result<CheckedIndex<DevicePtr>, GpuError> {
        let mut made = self.made();
        if made[0] != Some(now) {
            if let (Some(factors), Some(mask)) = (&self.factors, self.arrays.mask_place()) {
                let sides = [self.shape.block_rows() as u32, self.shape.block_cols() as u32];
                factors.enqueue(&self.kernels, mask, sides, stream)?;
            }
            self.arrays.enqueue_mask(&self.kernels, &self.shape, stream)?;
            self.checked.enqueue(&self.kernels, &self.shape, &self.arrays, stream)?;
            *made = [Some(now), None];
        }
        if !by_columns {
            return Ok(self.checked.places());
        }
        let transposed = self.by_columns()?;
        if made[1] != Some(now) {
            transposed.enqueue(&self.kernels, &self.shape, &self.checked, stream)?;
            made[1] = Some(now);
        }
        Ok(transposed.places())
    }

    fn made(&self) -> MutexGuard<'_, [Option<Made>; 2]> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
