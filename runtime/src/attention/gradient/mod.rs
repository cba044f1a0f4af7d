//! The gradient of an attention: dQ, dK and dV from Q, K, V, O, dO and LSE, under the mask of the attention.
//!
//! Two kernels compute it ([`KernelSpec::gradients`](bsr_codegen::KernelSpec::gradients)): that of dQ first, which also
//! writes delta = rowsum(dO * O) - dLSE and -LSE ([`RowTerms`]), then that of dK and dV, which reads both. The gradients of a
//! score's parameters are sums over the pairs of each row, which the kernels leave too ([`ScoreSums`]). Nothing of the size of Q K^T is in memory,
//! and no sum is shared by CTAs, so that every launch gives the same bits.

mod launcher;
mod operands;
mod reference;
mod score_sums;
#[cfg(feature = "simulator")]
mod simulate;
mod terms;
mod work;

pub use launcher::{GradientInputs, GradientLauncher, GradientOutputs, GradientPattern, ListedWork};
pub use operands::Saved;
pub use reference::{Summed, gradients_of_keys, gradients_of_queries, gradients_of_score};
pub use score_sums::ScoreSums;
#[cfg(feature = "simulator")]
pub use simulate::{SimulatedGradient, SimulatedGradients};
pub use terms::RowTerms;
pub use work::{GradientForm, GradientWork};
