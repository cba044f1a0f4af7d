//! Measuring: kernels and the dense library in turn, on equal work, from a cold cache.
//!
//! # What a measurement is
//! - Only executed operations count: `2 * nnzb * bm * bk * N` ([`Work::executed_flops`]).
//! - Time is GPU time between two events around one launch, each launch after the L2 cache was overwritten;
//!   the median of as many as it takes to know it to 0.5 % ([`interleave()`]).
//! - Candidates take turns, A B A B, so that clocks and temperature treat them alike.
//! - The dense library ([`DenseBaseline`]) runs in the same turns on an equal number of operations: M x N x K'
//!   with K' = executed operations / (2 * M * N), the average number of stored elements in a row, rounded to 16 bytes
//!   of it ([`Work::equal_dense_k`]). The headline is the ratio of the two rates.
//! - Data are random normal: zeros draw less power and run at higher clocks.
//!
//! [`BenchRecord`] is what is kept of it, as JSON.
//!
//! ```no_run
//! use bsr_runtime::bench::{Candidate, DenseBaseline, InterleaveOptions, interleave};
//! use bsr_runtime::gpu::{Device, GpuError, StreamRef, cublaslt::{CublasLt, DenseProblem}};
//! use bsr_runtime::{Dtype, Layout};
//!
//! # fn launch_kernel(_: StreamRef<'_>) -> Result<(), GpuError> { Ok(()) }
//! # fn main() -> Result<(), GpuError> {
//! let device = Device::open(0)?;
//! let problem = DenseProblem::new((8192, 8192, 1792), [Dtype::F16; 3], [Layout::RowMajor; 3]);
//! let mut dense = DenseBaseline::new(&CublasLt::new(&device)?, &problem, 0)?;
//! let opts = InterleaveOptions::default();
//! dense.tune(&device, &opts)?;
//! let mut candidates = [Candidate::new("bsr", |stream: StreamRef<'_>| launch_kernel(stream)), dense.candidate()];
//! let timings = interleave(&mut candidates, &opts, &device)?;
//! println!("{:.1} us against {:.1} us", timings[0].median_us(), timings[1].median_us());
//! # Ok(())
//! # }
//! ```

mod dense;
mod interleave;
mod power;
mod report;
mod roofs;
mod timing;
mod work;

pub use dense::DenseBaseline;
pub use interleave::{Candidate, InterleaveOptions, interleave, interleave_watched};
pub use power::{Clock, Power, PowerWatch};
pub use report::{BenchRecord, DenseRecord, L2Before, ProblemRecord, ReportError, Subject};
pub use roofs::{Effort, Progress, measure_roofs};
pub use timing::{TimeUs, Timing, tflops};
pub use work::Work;
