//! Block-sparse matrices in device memory.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use bsr_codegen::{Dtype, Layout, Refusal};

use super::buffer::{DeviceBuffer, DevicePtr, Plain};
use super::device::Device;
use super::error::GpuError;
use super::fingerprint::Fingerprint;
use super::foreign::misplaced;
use super::pattern::DevicePattern;
use crate::bsr::turned;
use crate::{Bsr, Element, Structure};

/// What is said of values at an address that kernels do not read.
const VALUES: &str = "the values of stored blocks are";

/// A block-sparse matrix in device memory: with a copy of its structure on the host, from which schedules are made, or
/// with a [`DevicePattern`], from which they are made on the GPU.
#[derive(Debug)]
pub struct DeviceBsr<T: Plain> {
    structure: Structure,
    fingerprint: Fingerprint,
    col_idx: DeviceBuffer<i32>,
    values: DeviceBuffer<T>,
    /// How the elements of a block lie.
    layout: Layout,
    /// The index by block column, once a kernel has asked for it.
    columns: OnceLock<ColumnIndex>,
    /// Where the pattern lives on the GPU: then `structure` has no blocks, and `col_idx` no elements.
    pattern: Option<Arc<DevicePattern>>,
}

/// The transposed index on the device.
#[derive(Debug)]
struct ColumnIndex {
    col_idx: DeviceBuffer<i32>,
    block_idx: DeviceBuffer<i32>,
}

impl<T: Element + Plain> DeviceBsr<T> {
    /// Copies a matrix to the device; done when it returns. A [`Bsr`] is valid by construction, so nothing
    /// is checked again.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn upload(device: &Device, host: &Bsr<T>) -> Result<Self, GpuError> {
        Self::upload_in(device, host, Layout::RowMajor)
    }

    /// As [`DeviceBsr::upload`], with the elements of each block row by row or column by column. The B of a kernel on two sparse
    /// factors has its blocks in the kernel's `b_layout`, which is `col` for 8-bit factors; all other matrices have them row by
    /// row. The values are arranged on the host, once.
    ///
    /// # Errors
    /// As [`DeviceBsr::upload`].
    pub fn upload_in(device: &Device, host: &Bsr<T>, layout: Layout) -> Result<Self, GpuError> {
        Ok(Self {
            structure: host.structure().clone(),
            fingerprint: Fingerprint::of(host.structure()),
            col_idx: DeviceBuffer::from_slice(device, host.col_idx())?,
            values: DeviceBuffer::from_slice(device, &host.values_in(layout))?,
            layout,
            columns: OnceLock::new(),
            pattern: None,
        })
    }

    /// Copies the matrix to the host after all work on the device. A pattern on the GPU is the one that was checked last.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch; [`GpuError::Download`] where values beyond the edge of
    /// the matrix are not zero; [`GpuError::Refused`] where the pattern on the GPU is wrong.
    pub fn download(&self) -> Result<Bsr<T>, GpuError> {
        let (structure, mut values) = match &self.pattern {
            Some(pattern) => {
                pattern.check()?;
                (pattern.download()?, self.values.to_vec()?)
            }
            None => (self.structure.clone(), self.values.to_vec()?),
        };
        values.truncate(structure.stored());
        if self.layout == Layout::ColMajor {
            let (rows, columns) = structure.block();
            values = turned(&values, (columns, rows));
        }
        Bsr::from_structure(structure, values).map_err(|error| GpuError::Download(error.to_string()))
    }

    /// Where it lies, without the element type.
    pub(crate) fn untyped(&self) -> UntypedBsr<'_> {
        let first = self.values.ptr();
        UntypedBsr {
            dtype: T::DTYPE,
            structure: &self.structure,
            fingerprint: self.fingerprint,
            col_idx: self.col_idx.ptr(),
            index: match &self.pattern {
                Some(pattern) => pattern.columns_range(),
                None => (self.col_idx.ptr(), self.col_idx.ptr() + self.col_idx.bytes() as u64),
            },
            values: (first, first + self.values.bytes() as u64),
            layout: self.layout,
            columns: &self.columns,
            pattern: self.pattern.as_deref(),
            on: self.values.device().info().ordinal,
        }
    }
}

/// A block-sparse matrix in the memory of a machine.
pub(crate) trait Stored: Debug {
    /// Where something is in that memory.
    type Address: Copy + Debug;

    /// Where the blocks are.
    fn structure(&self) -> &Structure;

    /// What tells the pattern from others, where that is known.
    fn fingerprint(&self) -> Option<Fingerprint>;

    /// The element type.
    fn dtype(&self) -> Dtype;

    /// Where the values begin and end; where they begin alone, if only that is known.
    fn range(&self) -> (Self::Address, Self::Address);

    /// Where the values are.
    fn values(&self) -> Self::Address {
        self.range().0
    }

    /// How the elements of a block lie, where they are not arranged as a kernel reads them.
    fn layout(&self) -> Option<Layout> {
        None
    }

    /// First and last byte address (exclusive) of the block columns, where a kernel may read them.
    fn index(&self) -> Option<(Self::Address, Self::Address)> {
        None
    }

    /// The pattern, if it lives on the GPU.
    fn pattern(&self) -> Option<&DevicePattern> {
        None
    }

    /// The GPU that the values are on, where that is known.
    fn on(&self) -> Option<usize> {
        None
    }

    /// Blocks that the values have room for: those that are stored, of a pattern that the host knows.
    fn places(&self) -> usize;
}

/// A block-sparse matrix in device memory whose element type is a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntypedBsr<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) structure: &'a Structure,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) col_idx: DevicePtr,
    /// First and last byte address (exclusive) of the block columns.
    pub(crate) index: (DevicePtr, DevicePtr),
    /// First and last byte address (exclusive).
    pub(crate) values: (DevicePtr, DevicePtr),
    /// How the elements of a block lie.
    pub(crate) layout: Layout,
    columns: &'a OnceLock<ColumnIndex>,
    pub(crate) pattern: Option<&'a DevicePattern>,
    /// The GPU that it lies on.
    pub(crate) on: usize,
}

impl Stored for UntypedBsr<'_> {
    type Address = DevicePtr;

    fn structure(&self) -> &Structure {
        self.structure
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        Some(self.fingerprint)
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn range(&self) -> (DevicePtr, DevicePtr) {
        self.values
    }

    fn layout(&self) -> Option<Layout> {
        Some(self.layout)
    }

    fn index(&self) -> Option<(DevicePtr, DevicePtr)> {
        Some(self.index)
    }

    fn pattern(&self) -> Option<&DevicePattern> {
        self.pattern
    }

    fn on(&self) -> Option<usize> {
        Some(self.on)
    }

    fn places(&self) -> usize {
        self.pattern.map_or(self.structure.nnzb(), DevicePattern::capacity)
    }
}

impl UntypedBsr<'_> {
    /// The block rows of the transposed index and the numbers of its blocks, copied to the device when they are first
    /// asked for: `8 * nnzb` bytes.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub(crate) fn by_columns(&self, device: &Device) -> Result<(DevicePtr, DevicePtr), GpuError> {
        let index = match self.columns.get() {
            Some(index) => index,
            None => {
                let host = self.structure.by_columns();
                let made = ColumnIndex {
                    col_idx: DeviceBuffer::from_slice(device, host.col_idx())?,
                    block_idx: DeviceBuffer::from_slice(device, host.block_idx())?,
                };
                // Another thread may have been faster: its copy is the one that launches read.
                self.columns.get_or_init(|| made)
            }
        };
        Ok((index.col_idx.ptr(), index.block_idx.ptr()))
    }
}

impl<T: Plain> DeviceBsr<T> {
    /// A matrix of zeros with the blocks of `structure`: what an SDDMM is written to.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn zeros(device: &Device, structure: &Structure) -> Result<Self, GpuError> {
        Ok(Self {
            structure: structure.clone(),
            fingerprint: Fingerprint::of(structure),
            col_idx: DeviceBuffer::from_slice(device, structure.col_idx())?,
            values: DeviceBuffer::zeroed(device, structure.stored())?,
            layout: Layout::RowMajor,
            columns: OnceLock::new(),
            pattern: None,
        })
    }

    /// Gives foreign device memory to a structure: `nnzb` blocks of `bm x bk` values in the order of its `col_idx`, row by row
    /// within a block. The values are neither copied nor freed; the block columns are copied to the device.
    ///
    /// # Errors
    /// [`GpuError::Refused`] if the address is null or no multiple of 16 bytes; [`GpuError::OutOfMemory`].
    ///
    /// # Safety
    /// For as long as the value lives, `values` must be memory of this device of so many elements. What lies beyond the edge of
    /// the matrix must be zero, as [`Bsr`] checks.
    pub unsafe fn from_raw(device: &Device, structure: &Structure, values: DevicePtr) -> Result<Self, GpuError> {
        if structure.stored() > 0 && (values == 0 || !values.is_multiple_of(16)) {
            return Err(misplaced(VALUES, values, 16).into());
        }
        Ok(Self {
            structure: structure.clone(),
            fingerprint: Fingerprint::of(structure),
            col_idx: DeviceBuffer::from_slice(device, structure.col_idx())?,
            // SAFETY: the caller vouches for the memory.
            values: unsafe { DeviceBuffer::foreign(device, values, structure.stored()) },
            layout: Layout::RowMajor,
            columns: OnceLock::new(),
            pattern: None,
        })
    }

    /// Gives a pattern that lives on the GPU values of its own: zeros, of as many blocks as it has room for.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn with_pattern(pattern: &Arc<DevicePattern>) -> Result<Self, GpuError> {
        let places = pattern.capacity() * pattern.shape().block.0 * pattern.shape().block.1;
        let values = DeviceBuffer::zeroed(pattern.device(), places)?;
        Self::patterned(pattern, values)
    }

    /// Gives foreign device memory to a pattern that lives on the GPU: as many blocks as it has room for, in the order of its
    /// columns. The values are neither copied nor freed.
    ///
    /// # Errors
    /// If the address is null or no multiple of 16 bytes.
    ///
    /// # Safety
    /// As [`DeviceBsr::from_raw`], of `capacity` blocks.
    pub unsafe fn from_raw_pattern(pattern: &Arc<DevicePattern>, values: DevicePtr) -> Result<Self, GpuError> {
        let places = pattern.capacity() * pattern.shape().block.0 * pattern.shape().block.1;
        if places > 0 && (values == 0 || !values.is_multiple_of(16)) {
            return Err(misplaced(VALUES, values, 16).into());
        }
        // SAFETY: the caller vouches for the memory.
        let values = unsafe { DeviceBuffer::foreign(pattern.device(), values, places) };
        Self::patterned(pattern, values)
    }

    fn patterned(pattern: &Arc<DevicePattern>, values: DeviceBuffer<T>) -> Result<Self, GpuError> {
        Ok(Self {
            structure: pattern.structure().clone(),
            fingerprint: Fingerprint::of_pattern(pattern.structure(), pattern.id()),
            col_idx: DeviceBuffer::uninit(pattern.device(), 0)?,
            values,
            layout: Layout::RowMajor,
            columns: OnceLock::new(),
            pattern: Some(Arc::clone(pattern)),
        })
    }

    /// Says that the values of each block lie column by column, as [`DeviceBsr::upload_in`] arranges them: those of foreign memory.
    #[must_use]
    pub fn by_columns(self) -> Self {
        Self { layout: Layout::ColMajor, ..self }
    }

    /// The same matrix with its values elsewhere in foreign memory: the block columns stay where they are. A launch that was
    /// enqueued reads the values that it was given.
    ///
    /// # Errors
    /// If the address is null or no multiple of 16 bytes.
    ///
    /// # Safety
    /// As [`DeviceBsr::from_raw`].
    pub unsafe fn set_values(&mut self, values: DevicePtr) -> Result<(), Refusal> {
        let stored = self.values.len();
        if stored > 0 && (values == 0 || !values.is_multiple_of(16)) {
            return Err(misplaced(VALUES, values, 16));
        }
        // SAFETY: the caller vouches for the memory.
        self.values = unsafe { DeviceBuffer::foreign(self.col_idx.device(), values, stored) };
        Ok(())
    }

    /// The values of the stored blocks, to be written: as in [`DeviceBsr::values`].
    pub fn values_mut(&mut self) -> &mut DeviceBuffer<T> {
        &mut self.values
    }

    /// Rows of the matrix, in elements.
    pub fn rows(&self) -> usize {
        self.structure.rows()
    }

    /// Columns of the matrix, in elements.
    pub fn cols(&self) -> usize {
        self.structure.cols()
    }

    /// Rows and columns of a block, in elements.
    pub fn block(&self) -> (usize, usize) {
        self.structure.block()
    }

    /// Number of stored blocks; of a pattern that lives on the GPU, how many it has room for.
    pub fn nnzb(&self) -> usize {
        self.pattern.as_ref().map_or(self.structure.nnzb(), |pattern| pattern.capacity())
    }

    /// The pattern, if it lives on the GPU.
    pub fn device_pattern(&self) -> Option<&Arc<DevicePattern>> {
        self.pattern.as_ref()
    }

    /// Shape and places of the blocks, on the host; of a pattern that lives on the GPU the shape alone, without blocks.
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Where each block row starts, on the host: one more entry than there are block rows.
    pub fn row_ptr(&self) -> &[i64] {
        self.structure.row_ptr()
    }

    /// The block column of each stored block, on the device.
    pub fn col_idx(&self) -> &DeviceBuffer<i32> {
        &self.col_idx
    }

    /// The values of the stored blocks, on the device: block after block, row by row within a block. Seen as
    /// a matrix they are `nnzb * bm` rows of `bk` elements. Those of [`Layout::ColMajor`] are column by column
    /// within a block.
    pub fn values(&self) -> &DeviceBuffer<T> {
        &self.values
    }

    /// What tells this pattern from every other: the key of a cached schedule.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}
