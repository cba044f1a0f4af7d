//! Matrices, devices, launches and measurements for bsr kernels.
//!
//! The host half needs no GPU: [`Bsr`] and [`Dense`] matrices, [readers](read) for files, [generators](generate)
//! for test patterns, 8-bit operands [quantised](mod@quantise) from wider ones, a [reference multiply](mod@reference)
//! in `f64`, and kernels that run [simulated] on the CPU.

// What features share is used in full where all of them are on, and there the compiler tells what is not.
#![cfg_attr(not(all(feature = "files", feature = "simulator")), allow(dead_code))]

pub mod attention;
pub mod bench;
mod bind;
pub mod bsr;
mod call;
pub mod dense;
mod element;
pub mod epilogue;
mod error;
pub mod extents;
pub mod features;
pub mod generate;
pub mod gpu;
pub mod interop;
pub mod kernel;
mod launcher;
mod lists;
mod machine;
mod memory;
mod operation;
mod permutation;
mod print;
pub mod prune;
pub mod quantise;
mod random;
pub mod read;
pub mod reference;
pub mod reorder;
pub mod roofs;
mod scales;
pub mod schedule;
pub mod shard;
#[cfg(feature = "simulator")]
pub mod simulated;
pub mod solve;
pub mod timeline;
#[doc(hidden)]
pub mod typed;
#[cfg(feature = "files")]
pub mod write;

pub use bsr::{Blocks, Bsr, Structure, Transposed};
pub use bsr_codegen::{Accumulate, Dtype, Layout, Scale};
pub use dense::{Dense, DenseView};
pub use element::{Element, e4m3, e5m2};
pub use epilogue::{Inputs, Results};
pub use extents::Extents;
pub use features::Features;
#[doc(hidden)]
pub use generate::Documents;
pub use generate::{Field, Pattern};
pub use kernel::{Kernel, KernelError, Launcher, Loaded};
pub use permutation::Permutation;
pub use reorder::Reordered;
pub use scales::Scales;
