//! Write a block-sparse GEMM kernel as an attribute; get readable Hopper PTX at the dense library's speed.
//!
//! ```no_run
//! use bsr::prelude::*;
//!
//! #[bsr_kernel(bm = 512, bn = 128, bk = 112)]
//! fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let a = Bsr::generate(Pattern::TopK(4), 1024, 1120, (512, 112), 0)?;
//!     let b = Dense::normal(1120, 512, Layout::RowMajor, 0);
//!     let c = spmm::load(&Device::open(0)?)?.multiply(&a, &b)?;
//!     println!("C is {} x {}, C[0, 0] = {:?}", c.rows(), c.cols(), c.get(0, 0));
//!     Ok(())
//! }
//! ```
//!
//! # The flow
//! One direction, one function an arrow:
//!
//! ```text
//! attribute tokens --bsr_kernel--+
//! text, TOML --------------------+--> KernelSpec --> Plan --> Ptx --> Loaded --> launch --> bench
//!                                     what was       every    text
//!                                     asked          number
//! ```
//!
//! The attribute goes from tokens to PTX while the crate compiles; [`KernelSpec`], [`Plan`] and [`Ptx`] do the
//! same at run time, and no step before [`Kernel::load`] needs CUDA:
//!
//! ```
//! use bsr::{Arch, KernelSpec, Plan};
//!
//! let spec: KernelSpec = "bm = 512, bn = 128, bk = 112".parse()?;
//! let plan = Plan::new(&spec, &Arch::SM_90A)?;
//! println!("{plan}");
//! assert!(plan.ptx().text().contains(".target sm_90a"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # On a stream of your own
//! [`Loaded::multiply`] copies in and out. What lies on the device already is multiplied by [`Loaded::launch`],
//! which enqueues and returns: no allocation and no synchronization after the first launch of a pattern, so it may
//! be captured into a CUDA graph.
//!
//! ```no_run
//! # use bsr::prelude::*;
//! # #[bsr_kernel(bm = 512, bn = 128, bk = 112)]
//! # fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
//! # fn multiply(a: &Bsr<f16>, b: &Dense<f16>) -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open(0)?;
//! let (kernel, stream) = (spmm::load(&device)?, Stream::new(&device)?);
//! let (a, b) = (DeviceBsr::upload(&device, a)?, DeviceDense::upload(&device, b)?);
//! let mut c = DeviceDense::zeros(&device, a.rows(), b.cols(), spmm::SPEC.c_layout)?;
//! kernel.launch(&stream, &a, &b, &mut c)?;
//! stream.synchronize()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Without a GPU
//! [`simulated::Simulated`] runs the same PTX on the CPU: the product is that of the GPU but for the last bits of its
//! sums, and the report lists every race, missing fence and misused barrier of the kernel. It tells nothing of speed.
//!
//! ```
//! use bsr::simulated::{Options, Simulated};
//! use bsr::{Arch, Bsr, Dense, Layout, Pattern, Plan, f16};
//!
//! let plan = Plan::new(&"bm = 64, bn = 64, bk = 32".parse()?, &Arch::SM_90A)?;
//! let ptx = plan.ptx();
//! let a = Bsr::<f16>::generate(Pattern::TopK(2), 100, 100, (64, 32), 0)?;
//! let b = Dense::<f16>::normal(100, 20, Layout::RowMajor, 0);
//! let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?;
//! let (c, report) = kernel.multiply::<f16, f16, f16>(&a, &b, &Options::default())?;
//! assert!(report.is_clean());
//! println!("C[0, 0] = {:?}", c.get(0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! `cli` (on by default) builds the `bsr` command and what only it needs; a library is well served without.

pub use bsr_codegen::{Arch, Dtype, KernelSpec, Layout, Mma, Op, Plan, PlanError, PlanErrors, Ptx, Schedule, spec};
pub use bsr_macros::bsr_kernel;
pub use bsr_runtime::{
    Bsr, BsrError, Dense, DenseError, DenseView, Element, GenerateError, Kernel, KernelError, Launcher, Loaded,
    Pattern, Structure, bench, gpu, read, reference, simulated,
};
pub use half::{bf16, f16};

/// Everything that a program with a kernel in it names: `use bsr::prelude::*;`.
pub mod prelude {
    pub use crate::gpu::{Device, DeviceBsr, DeviceDense, Stream};
    pub use crate::{Bsr, Dense, Kernel, Layout, Pattern, bf16, bsr_kernel, f16};
}
