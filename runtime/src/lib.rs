//! Matrices, devices, launches and measurements for bsr kernels.
//!
//! The host half needs no GPU: [`Bsr`] and [`Dense`] matrices, [readers](read) for files, [generators](generate)
//! for test patterns, a [reference multiply](mod@reference) in `f64`, and kernels that run [simulated] on the CPU.

pub mod bench;
pub mod bsr;
pub mod dense;
mod element;
pub mod generate;
pub mod gpu;
pub mod kernel;
mod random;
pub mod read;
pub mod reference;
pub mod schedule;
pub mod simulated;

pub use bsr::{Bsr, BsrError, Structure};
pub use bsr_codegen::{Dtype, Layout};
pub use dense::{Dense, DenseError, DenseView};
pub use element::Element;
pub use generate::{GenerateError, Pattern};
pub use kernel::{Kernel, KernelError, Launcher, Loaded};
