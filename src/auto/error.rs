//! Why a product that chooses its kernel cannot be had.

use bsr_codegen::PlanErrors;
use bsr_runtime::KernelError;
use bsr_runtime::attention::AttentionError;
use bsr_tuner::pick::PickError;

/// Why a product that chooses its kernel cannot be had.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AutoError {
    /// No kernel was found.
    #[error(transparent)]
    Pick(#[from] PickError),
    /// The chosen kernel cannot be planned: it was tuned by another version.
    #[error("the tuned kernel cannot be planned\n{0}")]
    Plan(#[from] PlanErrors),
    /// The kernel does not load, or does not take the operands.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The same of an attention, its mask or its tensors.
    #[error(transparent)]
    Attention(#[from] AttentionError),
}

bsr_codegen::message_as_debug!(AutoError);
