//! The patterns of whose product another pattern is made.

use std::sync::Arc;

use bsr_codegen::lists::{ListKernel, PairLists};

use super::DevicePattern;
use super::kernels::ListKernels;
use crate::gpu::buffer::{DeviceBuffer, DevicePtr};
use crate::gpu::device::Device;
use crate::gpu::error::GpuError;
use crate::gpu::stream::StreamRef;

/// A and B, and what marks the blocks of B.
#[derive(Debug)]
pub(super) struct Factors {
    patterns: [Arc<DevicePattern>; 2],
    marks: DeviceBuffer<u32>,
}

impl Factors {
    pub(super) fn new(device: &Device, patterns: [Arc<DevicePattern>; 2]) -> Result<Self, GpuError> {
        let of_b = patterns[1].shape();
        let marks = DeviceBuffer::zeroed(device, PairLists::marks_of(of_b.block_rows(), of_b.block_cols()))?;
        Ok(Self { patterns, marks })
    }

    /// How often they have changed.
    pub(super) fn generation(&self) -> u64 {
        self.patterns.iter().map(|pattern| pattern.generation()).sum()
    }

    /// Enqueues making the mask of their product, of so many rows and columns of blocks.
    pub(super) fn enqueue(
        &self,
        kernels: &ListKernels,
        mask: DevicePtr,
        [rows, columns]: [u32; 2],
        stream: StreamRef<'_>,
    ) -> Result<(), GpuError> {
        if rows == 0 {
            return Ok(());
        }
        let [a, b] = self.patterns.each_ref().map(|pattern| pattern.enqueue(stream, pattern.now(stream)?, false));
        let (a, b, marks) = (a?, b?, self.marks.ptr());
        let depth = self.patterns[1].shape().block_rows();
        let words = PairLists::words_of(columns as usize) as u32;
        let (marking, product) = (ListKernel::PairMarks, ListKernel::ProductMask);
        // SAFETY: A and B were checked ahead on this stream; `marks` and the mask are as long as their shapes say, and live as long
        // as the pattern, which the caller keeps until the stream is done.
        unsafe {
            if depth > 0 {
                let grid = PairLists::grid_of(depth, columns as usize);
                kernels.launch(marking, grid, &[b.rows, b.columns, marks], &[depth as u32, words], stream)?;
            }
            let pointers = [a.rows, a.columns, marks, mask];
            kernels.launch(product, (product.grid(rows, 1), 0), &pointers, &[rows, columns, words], stream)
        }
    }
}
