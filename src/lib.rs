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
//! use bsr::{KernelSpec, Plan};
//!
//! let spec: KernelSpec = "bm = 512, bn = 128, bk = 112".parse()?;
//! let plan = Plan::new(&spec)?;
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
//! use bsr::{Bsr, Dense, Layout, Pattern, Plan, f16};
//!
//! let plan = Plan::new(&"bm = 64, bn = 64, bk = 32".parse()?)?;
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
//! # Eight bits
//! FP8 ([`e4m3`], [`e5m2`]) and `i8` operands are made of wider ones by [`quantise`](mod@quantise), with the scales that
//! a kernel with a `scale` multiplies its sums by. B comes back column-major, as the tensor cores read 8-bit operands.
//!
//! ```
//! use bsr::quantise::{Quantised, quantise};
//! use bsr::simulated::{Options, Simulated};
//! use bsr::{Bsr, Dense, Layout, Pattern, Plan, Scale, bf16, e4m3, reference};
//!
//! let a = Bsr::<f32>::generate(Pattern::TopK(2), 100, 100, (64, 32), 0)?;
//! let b = Dense::<f32>::normal(100, 20, Layout::RowMajor, 0);
//! let Quantised::<e4m3, e4m3> { a, b, scales } = quantise(&a, &b, Scale::RowCol)?;
//!
//! let plan = Plan::new(&"bm = 64, bn = 64, bk = 32, dtype = e4m3, scale = row_col".parse()?)?;
//! let ptx = plan.ptx();
//! let kernel = Simulated::new(&plan, ptx.text(), ptx.entry())?;
//! let (c, report) = kernel.multiply_scaled::<e4m3, e4m3, bf16>(&a, &b, &scales, &Options::default())?;
//! let error = reference::relative_error(&c.to_f64(), &reference::multiply_scaled(&a, &b, &scales)?);
//! assert!(report.is_clean() && error < 5e-3, "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! `cli` (on by default) builds the `bsr` command and what only it needs; a library is well served without.

// The command names the library as any program does.
#[cfg(feature = "cli")]
extern crate self as bsr;

pub mod auto;
#[cfg(feature = "cli")]
pub mod cli;
pub mod family;

pub use auto::{Auto, AutoError, Tunable, tune};
pub use bsr_codegen::{
    Accumulate, Arch, Dtype, Epilogue, KernelSpec, Layout, Mma, Op, Plan, PlanError, PlanErrors, Ptx, Scale, Schedule,
    Shape, Switch, Target, epilogue, spec,
};
pub use bsr_macros::bsr_kernel;
pub use bsr_runtime::kernel::{Dds, Dsd, operation};
pub use bsr_runtime::{
    Bsr, BsrError, Dense, DenseError, DenseView, Element, GenerateError, Inputs, Kernel, KernelError, Launcher, Loaded,
    Pattern, Permutation, Reordered, Results, Scales, ScalesError, Structure, advise, bench, e4m3, e5m2, gpu, prune,
    quantise, read, reference, reorder, simulated, write,
};
pub use bsr_tuner as tuner;
pub use bsr_tuner::pick::{Choice, FirstUse, Tuner};
pub use family::{Chooser, Family, FamilyError, FirstFit, LoadedMember, Member, ProblemFacts};
pub use half::{bf16, f16};

/// Everything that a program with a kernel in it names: `use bsr::prelude::*;`.
pub mod prelude {
    pub use crate::gpu::{Device, DeviceBsr, DeviceDense, DeviceScales, DeviceVector, Stream};
    pub use crate::{
        Bsr, Dense, Family, Inputs, Kernel, Layout, Pattern, Scale, Scales, bf16, bsr_kernel, e4m3, e5m2, f16,
    };
}
