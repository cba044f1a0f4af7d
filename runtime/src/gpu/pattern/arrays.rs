//! The arrays that a pattern is given in.

use bsr_codegen::lists::{IndexWidth, ListKernel};

use super::error::not_owned;
use super::kernels::ListKernels;
use super::shape::PatternShape;
use crate::Structure;
use crate::bsr::narrow_row_ptr;
use crate::gpu::buffer::{DeviceBuffer, DevicePtr, Plain};
use crate::gpu::device::Device;
use crate::gpu::error::GpuError;
use crate::gpu::foreign::misplaced;
use crate::gpu::stream::StreamRef;

/// Row pointers and block columns, owned or foreign.
#[derive(Debug)]
pub(super) struct Arrays {
    index: Index,
    mask: Option<Mask>,
}

#[derive(Debug)]
enum Index {
    I32(DeviceBuffer<i32>, DeviceBuffer<i32>),
    I64(DeviceBuffer<i64>, DeviceBuffer<i64>),
}

/// A byte for every block, and where those of each row are counted.
#[derive(Debug)]
struct Mask {
    bytes: DeviceBuffer<u8>,
    counts: DeviceBuffer<u32>,
}

impl Arrays {
    pub(super) fn upload(device: &Device, structure: &Structure, capacity: usize) -> Result<Self, GpuError> {
        let row_ptr = DeviceBuffer::from_slice(device, &narrow_row_ptr(structure.row_ptr())?)?;
        let mut columns = structure.col_idx().to_vec();
        columns.resize(capacity, 0);
        Ok(Self { index: Index::I32(row_ptr, DeviceBuffer::from_slice(device, &columns)?), mask: None })
    }

    /// Arrays of their own, which are made of a mask.
    pub(super) fn mask(device: &Device, shape: &PatternShape, bytes: DeviceBuffer<u8>) -> Result<Self, GpuError> {
        let row_ptr = DeviceBuffer::zeroed(device, shape.block_rows() + 1)?;
        let col_idx = DeviceBuffer::zeroed(device, shape.capacity)?;
        let counts = DeviceBuffer::zeroed(device, shape.block_rows())?;
        Ok(Self { index: Index::I32(row_ptr, col_idx), mask: Some(Mask { bytes, counts }) })
    }

    /// # Safety
    /// They are device memory of the sizes that the shape says, for as long as the value lives.
    pub(super) unsafe fn foreign(
        device: &Device,
        shape: &PatternShape,
        width: IndexWidth,
        (row_ptr, col_idx): (DevicePtr, DevicePtr),
    ) -> Result<Self, GpuError> {
        let align = u64::from(width.bytes());
        for (base, len) in [(row_ptr, 1), (col_idx, shape.capacity)] {
            if len > 0 && (base == 0 || !base.is_multiple_of(align)) {
                return Err(misplaced("an array of a pattern is", base, align).into());
            }
        }
        let rows = shape.block_rows() + 1;
        // SAFETY: the caller vouches for the memory.
        let index = unsafe {
            match width {
                IndexWidth::I32 => Index::I32(
                    DeviceBuffer::foreign(device, row_ptr, rows),
                    DeviceBuffer::foreign(device, col_idx, shape.capacity),
                ),
                IndexWidth::I64 => Index::I64(
                    DeviceBuffer::foreign(device, row_ptr, rows),
                    DeviceBuffer::foreign(device, col_idx, shape.capacity),
                ),
            }
        };
        Ok(Self { index, mask: None })
    }

    pub(super) fn places(&self) -> (DevicePtr, DevicePtr, IndexWidth) {
        match &self.index {
            Index::I32(row_ptr, col_idx) => (row_ptr.ptr(), col_idx.ptr(), IndexWidth::I32),
            Index::I64(row_ptr, col_idx) => (row_ptr.ptr(), col_idx.ptr(), IndexWidth::I64),
        }
    }

    pub(super) fn mask_place(&self) -> Option<DevicePtr> {
        self.mask.as_ref().map(|mask| mask.bytes.ptr())
    }

    pub(super) fn replace(&self, structure: &Structure, stream: StreamRef<'_>) -> Result<(), GpuError> {
        match &self.index {
            Index::I32(row_ptr, col_idx) if self.mask.is_none() && !row_ptr.is_foreign() => {
                write(row_ptr, &narrow_row_ptr(structure.row_ptr())?, stream)?;
                write(col_idx, structure.col_idx(), stream)
            }
            _ => Err(not_owned().into()),
        }
    }

    pub(super) fn replace_mask(&self, mask: &[u8], stream: StreamRef<'_>) -> Result<(), GpuError> {
        match &self.mask {
            Some(own) if !own.bytes.is_foreign() => {
                if mask.len() != own.bytes.len() {
                    return Err(GpuError::Length { host: mask.len(), device: own.bytes.len() });
                }
                write(&own.bytes, mask, stream)
            }
            _ => Err(not_owned().into()),
        }
    }

    /// Enqueues making row pointers and columns of the mask, if there is one.
    pub(super) fn enqueue_mask(
        &self,
        kernels: &ListKernels,
        shape: &PatternShape,
        stream: StreamRef<'_>,
    ) -> Result<(), GpuError> {
        let Some(Mask { bytes, counts }) = &self.mask else { return Ok(()) };
        let (row_ptr, col_idx, _) = self.places();
        let numbers = [shape.block_rows() as u32, shape.block_cols() as u32, shape.capacity as u32];
        let grid = |kernel: ListKernel| (kernel.grid(numbers[0], 1), kernel.threads() / 8);
        if numbers[0] == 0 {
            return Ok(());
        }
        let (rows, columns) = (ListKernel::MaskRows, ListKernel::MaskColumns);
        // SAFETY: the mask has a byte for every block, `counts` a word for every block row, the arrays are as long as the
        // shape says; all of them live as long as this value, which the caller keeps until the stream is done.
        unsafe {
            kernels.launch(rows, grid(rows), &[bytes.ptr(), counts.ptr()], &numbers[..2], stream)?;
            kernels.launch(columns, grid(columns), &[bytes.ptr(), counts.ptr(), row_ptr, col_idx], &numbers, stream)
        }
    }
}

/// Copies to the first elements of a buffer that is only ever written in the order of a stream.
fn write<T: Plain>(to: &DeviceBuffer<T>, from: &[T], stream: StreamRef<'_>) -> Result<(), GpuError> {
    // SAFETY: the view is no longer than the buffer, and is gone before it.
    let mut view = unsafe { DeviceBuffer::foreign(to.device(), to.ptr(), from.len().min(to.len())) };
    view.upload_on(from, stream)
}
