//! What is wrong with a space, or with a space for a problem.

use bsr_codegen::Refusal;
use bsr_codegen::spec::SpecErrors;

/// Why there are no points.
#[derive(thiserror::Error)]
pub enum SpaceError {
    /// Keys or values that a spec cannot have. The report has its final form.
    #[error("{0}")]
    Spec(SpecErrors),
    /// Anything else.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

bsr_codegen::message_as_debug!(SpaceError);
