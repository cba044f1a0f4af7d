//! Block-sparse products and layers for [Burn](https://burn.dev).
//!
//! On Burn's CUDA backend the products run on the kernels of [`bsr`], in the memory of Burn's tensors. On any other backend they
//! are computed with dense matrices, so that a model can be run and tested without a GPU. A layer computes three products: its
//! result, the gradient of its input, and the gradient of its weight, of which only the stored blocks are computed.
//!
//! ```
//! use burn::backend::NdArray;
//! use burn::tensor::{Distribution, Tensor};
//! use burn_bsr::{BsrGemm, BsrTensor, GemmConfig, Keep};
//!
//! type B = NdArray<f32>;
//! let device = Default::default();
//! let dense = Tensor::<B, 2>::random([128, 96], Distribution::Default, &device);
//! let a = BsrTensor::from_dense(dense, (32, 32), Keep::Fraction(0.5))?;
//! let b = Tensor::<B, 2>::random([96, 16], Distribution::Default, &device);
//!
//! let output = BsrGemm::auto_tuned(&a, b, GemmConfig::default());
//! assert_eq!(output.dims(), [128, 16]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//! | feature | on by default | what it adds |
//! |---|---|---|
//! | `ndarray` | yes | the products on the backend `NdArray` |
//! | `cuda` | no | the products on the backend `Cuda` (without Burn's feature `fusion`), by the kernels of [`bsr`] |

mod autodiff;
mod backend;
#[cfg(feature = "cuda")]
pub mod cuda;
mod dense;
mod error;
mod gemm;
mod linear;
mod pattern;
mod tensor;

pub use backend::{BsrBackend, Call};
pub use bsr::FirstUse;
pub use bsr::prune::Keep;
pub use error::Error;
pub use gemm::{BsrGemm, GemmConfig};
pub use linear::{BlockSparseLinear, BlockSparseLinearRecord};
pub use pattern::{Pattern, PatternRecord};
pub use tensor::BsrTensor;
