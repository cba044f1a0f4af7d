//! Dense matrices in device memory.

use bsr_codegen::{Dtype, Layout, Refusal};
use cudarc::driver::sys;

use super::buffer::{DeviceBuffer, DevicePtr, Plain};
use super::device::Device;
use super::error::{GpuError, check};
use super::foreign::{self, lines, padded_ld, tma_stride, unaligned};
use super::stream::StreamRef;
use crate::{Dense, Element};

/// A dense matrix in device memory, owned or foreign: lines of adjacent elements that lie `ld` elements
/// apart, rows in row-major order and columns in column-major order.
///
/// The base is a multiple of 16 bytes and so is the stride between lines, always: TMA can address it.
#[derive(Debug)]
pub struct DeviceDense<T: Plain> {
    rows: usize,
    cols: usize,
    layout: Layout,
    ld: usize,
    memory: DenseMemory<T>,
}

#[derive(Debug)]
enum DenseMemory<T: Plain> {
    Owned(DeviceBuffer<T>),
    Foreign(DevicePtr),
}

impl<T: Element + Plain> DeviceDense<T> {
    /// Copies a matrix to the device; done when it returns. A matrix whose lines do not lie a multiple of 16
    /// bytes apart is padded on the way.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    pub fn upload(device: &Device, host: &Dense<T>) -> Result<Self, GpuError> {
        let (rows, cols, layout) = (host.rows(), host.cols(), host.layout());
        // A host matrix may have a longer allocation than its lines need, or end right after its last line.
        let copied = if host.data().len() == lines(rows, cols, layout).0 * host.ld() && tma_stride::<T>(host.ld()) {
            (host.ld(), DeviceBuffer::from_slice(device, host.data())?)
        } else {
            let padded = host.to_layout(layout);
            (padded.ld(), DeviceBuffer::from_slice(device, padded.data())?)
        };
        let (ld, buffer) = copied;
        Ok(Self { rows, cols, layout, ld, memory: DenseMemory::Owned(buffer) })
    }

    /// Copies the matrix to the host after all work on the device. Only for matrices this crate allocated.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch; [`GpuError::ForeignMemory`].
    pub fn download(&self) -> Result<Dense<T>, GpuError> {
        self.host_matrix(self.owned()?.to_vec()?)
    }

    /// Copies the matrix to the host after what is enqueued on `stream`, and waits for it.
    ///
    /// # Errors
    /// As [`DeviceDense::download`].
    pub fn download_on(&self, stream: StreamRef<'_>) -> Result<Dense<T>, GpuError> {
        self.host_matrix(self.owned()?.to_vec_on(stream)?)
    }

    /// Copies the matrix to the host after all work on the device on which it lies, whoever allocated it.
    ///
    /// # Errors
    /// [`GpuError::Driver`] with the error of an earlier launch.
    pub(crate) fn download_from(&self, device: &Device) -> Result<Dense<T>, GpuError> {
        match &self.memory {
            DenseMemory::Owned(_) => self.download(),
            DenseMemory::Foreign(ptr) => {
                // SAFETY: who called `from_raw` vouches for as much memory on the device of the launches, and more.
                let view = unsafe { DeviceBuffer::foreign(device, *ptr, self.extent()) };
                self.host_matrix(view.to_vec()?)
            }
        }
    }

    fn host_matrix(&self, data: Vec<T>) -> Result<Dense<T>, GpuError> {
        Dense::from_vec(self.rows, self.cols, self.layout, self.ld, data)
            .map_err(|error| GpuError::Download(error.to_string()))
    }
}

impl<T: Element + Plain> DeviceDense<T> {
    /// Where it lies and how, without the element type.
    pub(crate) fn untyped(&self) -> UntypedDense {
        let Self { rows, cols, layout, ld, .. } = *self;
        UntypedDense {
            ptr: self.ptr(),
            dtype: T::DTYPE,
            rows,
            cols,
            layout,
            ld,
            foreign: self.is_foreign(),
            on: self.on(),
        }
    }
}

impl<T: Plain> DeviceDense<T> {
    /// A matrix of zeros with padded lines.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::TooLarge`].
    pub fn zeros(device: &Device, rows: usize, cols: usize, layout: Layout) -> Result<Self, GpuError> {
        let (lines, line) = lines(rows, cols, layout);
        let ld = padded_ld::<T>(line);
        let size = size_of::<T>();
        let len = lines.checked_mul(ld).ok_or(GpuError::TooLarge { len: usize::MAX, size })?;
        Ok(Self { rows, cols, layout, ld, memory: DenseMemory::Owned(DeviceBuffer::zeroed(device, len)?) })
    }

    /// Views foreign device memory as a matrix. Nothing is copied, and nothing freed when dropped.
    ///
    /// # Errors
    /// If the base or the stride between lines is not a multiple of 16 bytes, with the
    /// padding to use.
    ///
    /// # Safety
    /// For as long as the value is used in launches, `ptr` must be device memory, on the device of those
    /// launches, of at least `ld` elements times the number of lines (rows in row-major order, columns in
    /// column-major order).
    pub unsafe fn from_raw(
        ptr: DevicePtr,
        rows: usize,
        cols: usize,
        layout: Layout,
        ld: usize,
    ) -> Result<Self, Refusal> {
        foreign::check::<T>(ptr, rows, cols, layout, ld)?;
        Ok(Self { rows, cols, layout, ld, memory: DenseMemory::Foreign(ptr) })
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Whether rows or columns are contiguous.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Leading dimension: elements from the start of one line to the start of the next.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// Is this foreign memory, viewed through [`DeviceDense::from_raw`]?
    pub fn is_foreign(&self) -> bool {
        matches!(self.memory, DenseMemory::Foreign(_))
    }

    /// The address of the first element.
    pub fn ptr(&self) -> DevicePtr {
        match &self.memory {
            DenseMemory::Owned(buffer) => buffer.ptr(),
            DenseMemory::Foreign(ptr) => *ptr,
        }
    }

    /// The number of the GPU that it lies on, where this crate allocated it.
    pub fn on(&self) -> Option<usize> {
        match &self.memory {
            DenseMemory::Owned(buffer) => Some(buffer.device().info().ordinal),
            DenseMemory::Foreign(_) => None,
        }
    }

    /// Elements from the first to the last, with the padding between lines.
    pub(crate) fn extent(&self) -> usize {
        let (lines, line) = lines(self.rows, self.cols, self.layout);
        if lines == 0 { 0 } else { (lines - 1) * self.ld + line }
    }

    /// Sets every byte, padding included, after all work on the device, and waits. 0xFF makes the elements
    /// NaN. Only for matrices this crate allocated.
    ///
    /// # Errors
    /// [`GpuError::ForeignMemory`].
    pub fn fill_bytes(&mut self, byte: u8) -> Result<(), GpuError> {
        self.owned_mut()?.fill_bytes(byte)
    }

    /// Enqueues setting every byte, padding included.
    ///
    /// # Errors
    /// As [`DeviceDense::fill_bytes`].
    pub fn fill_bytes_on(&mut self, byte: u8, stream: StreamRef<'_>) -> Result<(), GpuError> {
        self.owned_mut()?.fill_bytes_on(byte, stream)
    }

    /// The memory, where this crate allocated it.
    #[cfg(feature = "dlpack")]
    pub(crate) fn buffer(&self) -> Result<&DeviceBuffer<T>, GpuError> {
        self.owned()
    }

    fn owned(&self) -> Result<&DeviceBuffer<T>, GpuError> {
        match &self.memory {
            DenseMemory::Owned(buffer) => Ok(buffer),
            DenseMemory::Foreign(_) => Err(GpuError::ForeignMemory),
        }
    }

    fn owned_mut(&mut self) -> Result<&mut DeviceBuffer<T>, GpuError> {
        match &mut self.memory {
            DenseMemory::Owned(buffer) => Ok(buffer),
            DenseMemory::Foreign(_) => Err(GpuError::ForeignMemory),
        }
    }
}

/// A dense matrix in device memory, or in that of another machine with addresses `P`, whose element type is a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UntypedDense<P = DevicePtr> {
    pub(crate) ptr: P,
    pub(crate) dtype: Dtype,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) layout: Layout,
    pub(crate) ld: usize,
    pub(crate) foreign: bool,
    /// The GPU that it lies on, where this crate allocated it.
    pub(crate) on: Option<usize>,
}

impl<P> UntypedDense<P> {
    /// Elements of a line: of a row of a row-major matrix, a column of a column-major one.
    pub(crate) fn line(&self) -> usize {
        lines(self.rows, self.cols, self.layout).1
    }
}

impl UntypedDense {
    /// Part `index` of `count` that lie one below another in this matrix.
    ///
    /// # Errors
    /// Where the part starts in the middle of 16 bytes.
    pub(crate) fn stacked(&self, count: usize, index: usize) -> Result<Self, Refusal> {
        let rows = self.rows / count.max(1);
        let elements = match self.layout {
            Layout::RowMajor => index * rows * self.ld,
            Layout::ColMajor => index * rows,
        };
        let ptr = self.ptr + (elements * self.dtype.bytes() as usize) as u64;
        match ptr.is_multiple_of(16) {
            true => Ok(Self { ptr, rows, foreign: true, ..*self }),
            false => Err(unaligned(ptr)),
        }
    }

    /// Whether an element of one lies in the memory of an element of the other. Matrices whose lines lie side by side,
    /// windows of one wider matrix, have none in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (low, high) = if self.ptr <= other.ptr { (self, other) } else { (other, self) };
        let bytes = |dense: &Self| {
            let (lines, line) = lines(dense.rows, dense.cols, dense.layout);
            let size = dense.dtype.bytes() as usize;
            (lines as u64, (line * size) as u64, (dense.ld * size) as u64)
        };
        let ((lines, line, pitch), (high_lines, high_line, high_pitch)) = (bytes(low), bytes(high));
        if lines == 0 || line == 0 || high_lines == 0 || high_line == 0 {
            return false;
        }
        let distance = high.ptr - low.ptr;
        if distance >= (lines - 1) * pitch + line {
            return false;
        }
        let beside = pitch == high_pitch && distance % pitch >= line && distance % pitch + high_line <= pitch;
        !beside
    }

    /// First and last byte address (exclusive), padding included.
    pub(crate) fn range(&self) -> (DevicePtr, DevicePtr) {
        let (lines, _) = lines(self.rows, self.cols, self.layout);
        (self.ptr, self.ptr + (lines * self.ld * self.dtype.bytes() as usize) as u64)
    }

    /// Enqueues setting every element to zero bytes. Of foreign memory the elements alone are touched, nothing between
    /// two lines.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    ///
    /// # Safety
    /// The memory must be alive until the stream has done so, with nothing else using it meanwhile.
    pub(crate) unsafe fn zero_on(&self, device: &Device, stream: StreamRef<'_>) -> Result<(), GpuError> {
        let (lines, line) = lines(self.rows, self.cols, self.layout);
        let size = self.dtype.bytes() as usize;
        let (width, pitch) = (line * size, self.ld * size);
        if width == 0 || lines == 0 {
            return Ok(());
        }
        device.bind()?;
        // In one copy where the memory between the lines has no other owner.
        if !self.foreign || width == pitch || lines == 1 {
            let bytes = (lines - 1) * pitch + width;
            // SAFETY: the matrix has so many bytes from its first element to its last.
            return check("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(self.ptr, 0, bytes, stream.raw()) });
        }
        // SAFETY: the matrix has `lines` lines of `width` bytes, `pitch` bytes apart.
        check("cuMemsetD2D8Async", unsafe { sys::cuMemsetD2D8Async(self.ptr, pitch, 0, width, lines, stream.raw()) })
    }
}
