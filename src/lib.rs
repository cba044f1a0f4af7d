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
//!     let c = spmm::open()?.multiply((&a, &b))?;
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
//! kernel.launch(&stream, (&a, &b), &mut c)?;
//! stream.synchronize()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Without a GPU
//! [`Kernel::simulate`] runs the same PTX on the CPU: the product is that of the GPU but for the last bits of its
//! sums, and the report lists every race, missing fence and misused barrier of the kernel. It tells nothing of speed.
//! [`simulated::Simulated`] does so for any plan and any text.
//!
//! ```
//! use bsr::prelude::*;
//!
//! #[bsr_kernel(bm = 64, bn = 64, bk = 32)]
//! fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
//!
//! let a = Bsr::generate(Pattern::TopK(2), 100, 100, (64, 32), 0)?;
//! let b = Dense::normal(100, 20, Layout::RowMajor, 0);
//! let (c, report) = spmm::simulate((&a, &b), &Options::default())?;
//! assert!(report.is_clean());
//! println!("C[0, 0] = {:?}", c.get(0, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # More than two factors
//! What a kernel reads besides A and B is the third element of the tuple, and a second result the second element of what is
//! written: the same for [launches](Loaded::launch), for [host matrices](Loaded::multiply), on the simulator, for
//! [families](family), for lists of products and for [`Auto`]. A call that does not fit the kernel does not compile.
//!
//! ```
//! use bsr::prelude::*;
//!
//! #[bsr_kernel(bm = 64, bn = 64, bk = 32)]
//! fn normed(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>) -> (Dense<f16>, Rows<f32>) {
//!     let x = acc + bias;
//!     (x, row_sum(x * x))
//! }
//!
//! let a = Bsr::generate(Pattern::TopK(2), 100, 100, (64, 32), 0)?;
//! let (b, bias) = (Dense::normal(100, 20, Layout::RowMajor, 0), vec![1.0; 100]);
//! let ((c, sums), report) = normed::simulate((&a, &b, normed_inputs { bias: &bias }), &Options::default())?;
//! assert!(report.is_clean());
//! println!("C[0, 0] = {:?}, the squares of row 0 add up to {}", c.get(0, 0), sums[0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Eight bits
//! FP8 ([`e4m3`], [`e5m2`]) and `i8` operands are made of wider ones by [`quantise`](mod@quantise), with the scales that
//! a kernel with a `scale` multiplies its sums by. B comes back column-major, as the tensor cores read 8-bit operands.
//!
//! ```
//! use bsr::prelude::*;
//! use bsr::quantise::{Quantised, quantise};
//! use bsr::reference;
//!
//! #[bsr_kernel(bm = 64, bn = 64, bk = 32, scale = row_col)]
//! fn fp8(a: Bsr<e4m3>, b: Dense<e4m3>) -> Dense<bf16>;
//!
//! let a = Bsr::<f32>::generate(Pattern::TopK(2), 100, 100, (64, 32), 0)?;
//! let b = Dense::<f32>::normal(100, 20, Layout::RowMajor, 0);
//! let Quantised::<e4m3, e4m3> { a, b, scales } = quantise(&a, &b, Scale::RowCol)?;
//! let (c, report) = fp8::simulate((&a, &b, &scales), &Options::default())?;
//! let error = reference::relative_error(&c.to_f64(), &reference::multiply_scaled(&a, &b, &scales)?);
//! assert!(report.is_clean() && error < 5e-3, "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! | feature | on by default | what it adds |
//! |---|---|---|
//! | `cli` | yes | the `bsr` command and what only it needs; it implies `tuner` |
//! | `tuner` | with `cli` | `Auto`: kernels chosen by measurements or by the cost model; sweeps and their database; it implies the next two |
//! | `simulator` | with `tuner` | kernels on the CPU, with a report of every race ([`simulated`]) |
//! | `files` | with `tuner` | readers and writers of `.npz`, `.npy`, `.safetensors`, `.mtx` and `.smtx` ([`read`], [`write`](mod@write)) |
//! | `dlpack` | no | matrices as DLPack tensors, on the host and on the GPU ([`interop`]) |
//! | `ndarray` | no | dense matrices as views of ndarray, and back ([`interop`]) |
//! | `nccl` | no | sums over several GPUs, with NCCL ([`gpu`]) |
//!
//! With `default-features = false` a crate gets the attribute, matrices, the f64 reference and the GPU.

#[cfg(feature = "tuner")]
pub mod auto;
#[cfg(not(feature = "tuner"))]
#[doc(hidden)]
#[path = "auto/without.rs"]
pub mod auto;
#[doc(hidden)]
pub mod call;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(doctest)]
mod documentation;
pub mod family;

// The attribute writes `::bsr`, also in this crate.
extern crate self as bsr;

#[cfg(not(feature = "tuner"))]
#[doc(hidden)]
pub use auto::Auto;
#[cfg(feature = "tuner")]
pub use auto::{
    Auto, AutoAttention, AutoError, Tunable, TunableAttention, tune, tune_attention, tune_attention_blocks,
};
pub use bsr_codegen::{
    Accumulate, Arch, Dtype, Epilogue, KernelSpec, Layout, Load, Mma, Op, Pdl, Plan, PlanError, PlanErrors, Ptx,
    Refusal, Scale, Schedule, Shape, SplitK, Switch, Target, epilogue, probes, spec,
};
pub use bsr_macros::bsr_kernel;
pub use bsr_runtime::kernel::arguments::InPlace;
pub use bsr_runtime::kernel::{
    Dds, DeviceMatrix, Dsd, Dss, Fallback, HostMatrix, Operation, Sdd, Sss, arguments, operation,
};
#[cfg(feature = "simulator")]
pub use bsr_runtime::simulated;
#[cfg(feature = "files")]
pub use bsr_runtime::write;
pub use bsr_runtime::{
    Blocks, Bsr, Dense, DenseView, Element, Features, Field, Inputs, Kernel, KernelError, Launcher, Loaded, Pattern,
    Permutation, Reordered, Results, Scales, Structure, attention, bench, e4m3, e5m2, gpu, interop, prune, quantise,
    read, reference, reorder, roofs, shard, solve, timeline,
};
#[cfg(feature = "tuner")]
pub use bsr_tuner::pick::{Choice, FirstUse, Tuner};
#[cfg(feature = "tuner")]
pub use bsr_tuner::{self as tuner, advise};
pub use family::{Chooser, Family, FamilyError, FirstFit, LoadedMember, Member, ProblemFacts};
pub use half::{bf16, f16};

/// Everything that a program with a kernel in it names: `use bsr::prelude::*;`.
pub mod prelude {
    #[doc(hidden)]
    pub use crate::Auto;
    pub use crate::attention::AttentionKernel;
    pub use crate::gpu::{
        Device, DeviceBsr, DeviceDense, DeviceInputs, DeviceOrder, DeviceScales, DeviceVector, Stream,
    };
    #[cfg(feature = "simulator")]
    pub use crate::simulated::Options;
    pub use crate::{
        Blocks, Bsr, Dds, Dense, Dsd, Dss, Family, InPlace, Inputs, Kernel, Layout, Pattern, Permutation, Scale,
        Scales, Sdd, Sss, Structure, bf16, bsr_kernel, e4m3, e5m2, f16,
    };
    #[cfg(feature = "tuner")]
    pub use crate::{FirstUse, Tunable, TunableAttention, family::TunableFamily};
}
