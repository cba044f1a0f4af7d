//! What is made of a pattern's arrays on the device: checked rows and columns, and the transposed index.

use bsr_codegen::Refusal;
use bsr_codegen::lists::{ListKernel, WrongIndex};

use super::arrays::Arrays;
use super::error::wrong_row;
use super::kernels::ListKernels;
use super::shape::PatternShape;
use crate::gpu::buffer::{DeviceBuffer, DevicePtr};
use crate::gpu::device::Device;
use crate::gpu::error::GpuError;
use crate::gpu::stream::StreamRef;

/// No row is wrong.
const NO_ERROR: u64 = u64::MAX;

/// A pattern that was checked, as a kernel reads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedIndex<P> {
    /// First block and number of blocks of every row.
    pub(crate) rows: P,
    pub(crate) columns: P,
    /// Where the blocks are stored, where that is not their place among the columns.
    pub(crate) blocks: P,
}

/// Rows that are right, their columns, and what is wrong.
#[derive(Debug)]
pub(super) struct Checked {
    /// First block and number of blocks of every block row.
    rows: DeviceBuffer<[u32; 2]>,
    columns: DeviceBuffer<i32>,
    /// The first wrong row and what is wrong with it.
    error: DeviceBuffer<u64>,
    /// The wrong value of every row that has one.
    values: DeviceBuffer<i64>,
}

impl Checked {
    pub(super) fn new(device: &Device, shape: &PatternShape) -> Result<Self, GpuError> {
        Ok(Self {
            rows: DeviceBuffer::zeroed(device, shape.block_rows())?,
            columns: DeviceBuffer::zeroed(device, shape.capacity)?,
            error: DeviceBuffer::from_slice(device, &[NO_ERROR])?,
            values: DeviceBuffer::zeroed(device, shape.block_rows())?,
        })
    }

    pub(super) fn enqueue(
        &self,
        kernels: &ListKernels,
        shape: &PatternShape,
        arrays: &Arrays,
        stream: StreamRef<'_>,
    ) -> Result<(), GpuError> {
        let (row_ptr, col_idx, width) = arrays.places();
        let block_rows = shape.block_rows() as u32;
        if block_rows == 0 {
            return Ok(());
        }
        let kernel = ListKernel::Check(width);
        let pointers = [row_ptr, col_idx, self.rows.ptr(), self.columns.ptr(), self.error.ptr(), self.values.ptr()];
        let numbers = [block_rows, shape.block_cols() as u32, shape.capacity as u32];
        // SAFETY: the arrays are as long as the shape says, as are those of this value; they live as long as the pattern,
        // which the caller keeps until the stream is done.
        unsafe { kernels.launch(kernel, (kernel.grid(block_rows, 1), 0), &pointers, &numbers, stream) }
    }

    pub(super) fn places(&self) -> CheckedIndex<DevicePtr> {
        CheckedIndex { rows: self.rows.ptr(), columns: self.columns.ptr(), blocks: 0 }
    }

    pub(super) fn columns_range(&self) -> (DevicePtr, DevicePtr) {
        (self.columns.ptr(), self.columns.ptr() + self.columns.bytes() as u64)
    }

    /// The first wrong row that was found since this was asked for last. The device must be idle.
    pub(super) fn take_error(&self, shape: &PatternShape) -> Result<Option<Refusal>, GpuError> {
        let record = self.error.to_vec()?.first().copied().unwrap_or(NO_ERROR);
        let row = (record >> 32) as usize;
        let Some(kind) = WrongIndex::from_number(record as u32).filter(|_| row < self.values.len()) else {
            return Ok(None);
        };
        let value = self.values.to_vec()?[row];
        // SAFETY: the view is of the record, and gone before it.
        let mut view = unsafe { DeviceBuffer::<u64>::foreign(self.error.device(), self.error.ptr(), 1) };
        view.fill_bytes(0xFF)?;
        Ok(Some(wrong_row(row, kind, value, shape)))
    }

    /// Row pointers and columns of the rows that are right.
    pub(super) fn to_host(&self) -> Result<(Vec<i32>, Vec<i32>), GpuError> {
        let (rows, columns) = (self.rows.to_vec()?, self.columns.to_vec()?);
        let (mut row_ptr, mut col_idx) = (vec![0], vec![]);
        for [first, blocks] in rows {
            col_idx.extend(&columns[first as usize..(first + blocks) as usize]);
            row_ptr.push(col_idx.len() as i32);
        }
        Ok((row_ptr, col_idx))
    }
}

/// The transposed index.
#[derive(Debug)]
pub(super) struct Transposed {
    /// Blocks of every column in the block rows of each CTA, then of all.
    counts: DeviceBuffer<u32>,
    /// First place and number of blocks of every block column.
    rows: DeviceBuffer<[u32; 2]>,
    columns: DeviceBuffer<i32>,
    blocks: DeviceBuffer<i32>,
    ctas: u32,
}

impl Transposed {
    /// CTAs that count and scatter, at most: each of them has a line of counts, which one thread a column sums up.
    const CTAS: usize = 128;

    pub(super) fn new(device: &Device, shape: &PatternShape) -> Result<Self, GpuError> {
        let ctas = shape.block_rows().clamp(1, Self::CTAS);
        Ok(Self {
            counts: DeviceBuffer::zeroed(device, (ctas + 1) * shape.block_cols())?,
            rows: DeviceBuffer::zeroed(device, shape.block_cols())?,
            columns: DeviceBuffer::zeroed(device, shape.capacity)?,
            blocks: DeviceBuffer::zeroed(device, shape.capacity)?,
            ctas: ctas as u32,
        })
    }

    pub(super) fn enqueue(
        &self,
        kernels: &ListKernels,
        shape: &PatternShape,
        checked: &Checked,
        stream: StreamRef<'_>,
    ) -> Result<(), GpuError> {
        let (rows, columns) = (shape.block_rows() as u32, shape.block_cols() as u32);
        let by_rows = [rows, columns, rows.div_ceil(self.ctas)];
        let scattered = [by_rows[0], by_rows[1], by_rows[2], shape.capacity as u32];
        let launched = |kernel: ListKernel| {
            let by = if kernel == ListKernel::ScanColumns { columns } else { rows };
            (kernel.grid(by, self.ctas), kernel.column_bytes(columns))
        };
        let CheckedIndex { rows, columns: stored, .. } = checked.places();
        let (counts, own) = (self.counts.ptr(), self.rows.ptr());
        let [count, scan, scatter] = [ListKernel::CountColumns, ListKernel::ScanColumns, ListKernel::ScatterColumns];
        let written = [rows, stored, counts, own, self.columns.ptr(), self.blocks.ptr()];
        // SAFETY: `counts` has a line of columns for every CTA and one more, the rest is as long as the shape says; all of it
        // lives as long as the pattern, which the caller keeps until the stream is done.
        unsafe {
            kernels.launch(count, launched(count), &[rows, stored, counts], &by_rows, stream)?;
            kernels.launch(scan, launched(scan), &[counts], &[columns, self.ctas], stream)?;
            kernels.launch(scatter, launched(scatter), &written, &scattered, stream)
        }
    }

    pub(super) fn places(&self) -> CheckedIndex<DevicePtr> {
        CheckedIndex { rows: self.rows.ptr(), columns: self.columns.ptr(), blocks: self.blocks.ptr() }
    }
}
