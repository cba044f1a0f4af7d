//! The dense library on equal work: what a sparse kernel is measured against.

use bsr_codegen::{Dtype, Layout};
use half::{bf16, f16};

use super::interleave::{Candidate, InterleaveOptions, interleave};
use super::timing::Timing;
use crate::gpu::cublaslt::{CublasLt, DensePlan, DenseProblem};
use crate::gpu::{Device, DeviceBuffer, GpuError, Stream, StreamRef};
use crate::{Dense, Element, e4m3, e5m2};

/// A dense product with operands of its own, drawn as [`Dense::normal`] draws: the power a GPU draws, and so its clock,
/// depends on the data.
#[derive(Debug)]
pub struct DenseBaseline {
    plan: DensePlan,
    a: DeviceBuffer<u8>,
    b: DeviceBuffer<u8>,
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
        let DenseProblem { m, n, k, types: [a, b, c], layouts, ld, .. } = *problem;
        let drawn = |dtype, shape, at: usize| {
            let seed = seed.wrapping_add(at as u64);
            DeviceBuffer::from_slice(device, &normal_bytes(dtype, shape, layouts[at], ld[at], seed))
        };
        Ok(Self {
            plan,
            a: drawn(a, (m, k), 0)?,
            b: drawn(b, (k, n), 1)?,
            c: DeviceBuffer::uninit(device, problem.elements()[2] * c.bytes() as usize)?,
        })
    }

    /// Times every algorithm the library proposes, cold and interleaved, and selects the fastest. The times
    /// are in the library's order and named by algorithm; one that the library proposes and then refuses to
    /// run is left out.
    ///
    /// # Errors
    /// If no algorithm runs.
    pub fn tune(&mut self, device: &Device, opts: &InterleaveOptions) -> Result<Vec<Timing>, GpuError> {
        let this = &*self;
        let usable = this.usable(device)?;
        let mut candidates: Vec<_> = usable
            .iter()
            .map(|&index| {
                let name = this.plan.algorithm_name(index);
                Candidate::new(name, move |stream: StreamRef<'_>| this.launch_algorithm(index, stream))
            })
            .collect();
        let timings = interleave(&mut candidates, opts, device)?;
        drop(candidates);
        let times = usable.iter().zip(&timings);
        let fastest = times.min_by(|x, y| x.1.median_us().total_cmp(&y.1.median_us()));
        if let Some((&index, _)) = fastest {
            self.plan.select(index);
        }
        Ok(timings)
    }

    /// The algorithms that run; the first error if none does.
    fn usable(&self, device: &Device) -> Result<Vec<usize>, GpuError> {
        let stream = Stream::new(device)?;
        let mut usable = Vec::new();
        let mut refused = None;
        for index in 0..self.plan.algorithms() {
            let ran = self.launch_algorithm(index, stream.handle());
            match ran.and_then(|()| stream.synchronize()) {
                Ok(()) => usable.push(index),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) if usable.is_empty() => Err(error),
            _ => Ok(usable),
        }
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
        self.launch_algorithm(self.plan.selected(), stream)
    }

    fn launch_algorithm(&self, index: usize, stream: StreamRef<'_>) -> Result<(), GpuError> {
        let (a, b, c) = (self.a.ptr(), self.b.ptr(), self.c.ptr());
        // SAFETY: the operands have the problem's sizes; freeing them waits for the work that uses them.
        unsafe { self.plan.launch_algorithm(index, stream, a, b, c) }
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

/// Normal draws in lines `ld` elements apart, as they lie in memory.
fn normal_bytes(dtype: Dtype, shape: (usize, usize), layout: Layout, ld: usize, seed: u64) -> Vec<u8> {
    fn bytes<T: Element>(shape: (usize, usize), layout: Layout, ld: usize, seed: u64) -> Vec<u8> {
        T::to_bytes(&normal_lines::<T>(shape, layout, ld, seed))
    }
    let draw = match dtype {
        Dtype::F16 => bytes::<f16>,
        Dtype::BF16 => bytes::<bf16>,
        Dtype::F32 => bytes::<f32>,
        Dtype::F64 => bytes::<f64>,
        Dtype::E4M3 => bytes::<e4m3>,
        Dtype::E5M2 => bytes::<e5m2>,
        Dtype::I8 => bytes::<i8>,
        Dtype::I32 => bytes::<i32>,
    };
    draw(shape, layout, ld, seed)
}

fn normal_lines<T: Element>((rows, cols): (usize, usize), layout: Layout, ld: usize, seed: u64) -> Vec<T> {
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
        let f16s = |ld| f16::from_bytes(&normal_bytes(Dtype::F16, (3, 10), Layout::RowMajor, ld, 7));
        let (tight, wide) = (f16s(16), f16s(24));
        assert_eq!((tight.len(), wide.len()), (48, 72));
        for line in 0..3 {
            assert_eq!(tight[line * 16..][..10], wide[line * 24..][..10]);
            assert_eq!(wide[line * 24 + 10..][..14], [f16::ZERO; 14]);
        }
        for (dtype, ld) in [(Dtype::BF16, 8), (Dtype::E4M3, 16), (Dtype::I8, 16), (Dtype::F32, 4)] {
            let columns = normal_bytes(dtype, (3, 10), Layout::ColMajor, ld, 7);
            assert_eq!(columns.len(), 10 * ld * dtype.bytes() as usize, "{dtype}");
        }
    }
}
