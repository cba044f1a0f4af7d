//! The dense library on equal work: what a sparse kernel is measured against.

use bsr_codegen::{Dtype, Layout};
use half::{bf16, f16};

use super::interleave::{Candidate, InterleaveOptions, interleave};
use super::timing::Timing;
use crate::gpu::cublaslt::{CublasLt, DensePlan, DenseProblem};
use crate::gpu::{Device, DeviceBuffer, GpuError, StreamRef};
use crate::{Dense, Element};

/// A dense product with operands of its own, drawn from N(0, 1): the power a GPU draws, and so its clock,
/// depends on the data.
#[derive(Debug)]
pub struct DenseBaseline {
    plan: DensePlan,
    a: DeviceBuffer<u16>,
    b: DeviceBuffer<u16>,
    c: DeviceBuffer<u8>,
}

impl DenseBaseline {
    /// Draws and uploads the operands, and asks the library for its algorithms.
    ///
    /// # Errors
    /// [`GpuError::DenseProblem`] for what the library does not multiply, [`GpuError::OutOfMemory`].
    pub fn new(library: &CublasLt, problem: &DenseProblem, seed: u64) -> Result<Self, GpuError> {
        let device = library.device();
        let plan = library.plan(problem)?;
        let DenseProblem {
            m,
            n,
            k,
            input,
            output,
            a,
            b,
            c,
            lda,
            ldb,
            ldc,
        } = *problem;
        let c_lines = if c == Layout::RowMajor { m } else { n };
        Ok(Self {
            plan,
            a: DeviceBuffer::from_slice(device, &normal_bits(input, (m, k), a, lda, seed))?,
            b: DeviceBuffer::from_slice(
                device,
                &normal_bits(input, (k, n), b, ldb, seed.wrapping_add(1)),
            )?,
            c: DeviceBuffer::uninit(device, c_lines * ldc * output.bytes() as usize)?,
        })
    }

    /// Times every algorithm the library proposes, cold and interleaved, and selects the fastest. The times
    /// are in the library's order; their names are the algorithms'.
    ///
    /// # Errors
    /// If no algorithm runs.
    pub fn tune(
        &mut self,
        device: &Device,
        opts: &InterleaveOptions,
    ) -> Result<Vec<Timing>, GpuError> {
        let this = &*self;
        let mut candidates: Vec<_> = (0..this.plan.algorithms())
            .map(|index| {
                Candidate::new(
                    this.plan.algorithm_name(index),
                    move |stream: StreamRef<'_>| {
                        // SAFETY: the operands have the problem's sizes and live as long as `self`.
                        unsafe {
                            this.plan.launch_algorithm(
                                index,
                                stream,
                                this.a.ptr(),
                                this.b.ptr(),
                                this.c.ptr(),
                            )
                        }
                    },
                )
            })
            .collect();
        let timings = interleave(&mut candidates, opts, device)?;
        drop(candidates);
        let fastest = (0..timings.len())
            .min_by(|&x, &y| timings[x].median_us().total_cmp(&timings[y].median_us()));
        self.plan.select(fastest.unwrap_or(0));
        Ok(timings)
    }

    /// The product as a candidate named `dense`, with the selected algorithm.
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate::new("dense", |stream: StreamRef<'_>| self.launch(stream))
    }

    /// Enqueues the product with the selected algorithm.
    ///
    /// # Errors
    /// [`GpuError::CublasLt`] if the library refuses.
    pub fn launch(&self, stream: StreamRef<'_>) -> Result<(), GpuError> {
        // SAFETY: the operands have the problem's sizes; freeing them waits for the work that uses them.
        unsafe {
            self.plan
                .launch(stream, self.a.ptr(), self.b.ptr(), self.c.ptr())
        }
    }

    /// The problem and its algorithms.
    pub fn plan(&self) -> &DensePlan {
        &self.plan
    }

    /// The selected algorithm in the library's numbers.
    pub fn algorithm(&self) -> String {
        self.plan.algorithm_name(self.plan.selected())
    }
}

/// Draws from N(0, 1) in lines `ld` elements apart, as the bits of f16 or bf16.
fn normal_bits(
    dtype: Dtype,
    (rows, cols): (usize, usize),
    layout: Layout,
    ld: usize,
    seed: u64,
) -> Vec<u16> {
    match dtype {
        Dtype::BF16 => normal_lines::<bf16>((rows, cols), layout, ld, seed)
            .into_iter()
            .map(bf16::to_bits)
            .collect(),
        _ => normal_lines::<f16>((rows, cols), layout, ld, seed)
            .into_iter()
            .map(f16::to_bits)
            .collect(),
    }
}

fn normal_lines<T: Element>(
    (rows, cols): (usize, usize),
    layout: Layout,
    ld: usize,
    seed: u64,
) -> Vec<T> {
    let drawn = Dense::<T>::normal(rows, cols, layout, seed);
    if drawn.ld() == ld {
        return drawn.into_vec();
    }
    let view = drawn.view();
    let mut lines = vec![T::ZERO; view.lines() * ld];
    for (index, line) in lines.chunks_mut(ld.max(1)).enumerate() {
        let source = view.line(index);
        line[..source.len()].copy_from_slice(source);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_fill_the_leading_dimension_they_are_asked_for() {
        let tight = normal_bits(Dtype::F16, (3, 10), Layout::RowMajor, 16, 7);
        let wide = normal_bits(Dtype::F16, (3, 10), Layout::RowMajor, 24, 7);
        assert_eq!((tight.len(), wide.len()), (48, 72));
        for line in 0..3 {
            assert_eq!(tight[line * 16..][..10], wide[line * 24..][..10]);
            assert_eq!(wide[line * 24 + 10..][..14], [0; 14]);
        }
        let columns = normal_bits(Dtype::BF16, (3, 10), Layout::ColMajor, 8, 7);
        assert_eq!(columns.len(), 80);
    }
}
