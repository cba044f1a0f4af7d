//! Why an attention cannot be computed.

use bsr_codegen::Dtype;

use crate::error::KernelError;
#[cfg(feature = "simulator")]
use crate::error::SimulatedError;
use crate::gpu::GpuError;

/// Why an attention cannot be computed. Nothing was launched and nothing written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AttentionError {
    /// The plan is of another operation.
    #[error("the kernel was compiled with op = {0}\n  help: a spec with op = attention")]
    Operation(bsr_codegen::Op),
    /// A size that no attention has, or that the kernel was not compiled for.
    #[error("{fact}\n  {arithmetic}\n  help: {help}")]
    Size {
        /// The fact.
        fact: String,
        /// The numbers behind it.
        arithmetic: String,
        /// The remedy.
        help: String,
    },
    /// A list of blocks that is none.
    #[error("the mask is malformed: {fact}\n  help: {help}")]
    Mask {
        /// The fact, with the numbers.
        fact: String,
        /// The remedy.
        help: &'static str,
    },
    /// A tensor has another element type than the kernel was compiled for.
    #[error("{operand} is {found}, the kernel was compiled for {expected}\n  help: dtype = {found}, or cast {operand}")]
    Dtype {
        /// `"Q"` for instance.
        operand: &'static str,
        /// The tensor's element type.
        found: Dtype,
        /// The kernel's.
        expected: Dtype,
    },
    /// A scale that maxima cannot be taken under.
    #[error(
        "a scale of {0} is none\n  the greatest score is that of the greatest product only where the scale is positive and finite\n  help: 1 / sqrt(head dimension), or negate Q"
    )]
    Scale(f32),
    /// Scalars of the score that are missing, or that it does not have.
    #[error(
        "the score takes {expected} numbers, and {found} are given\n  help: one for each of `{names}`, in this order"
    )]
    Scalars {
        /// Parameters of the score.
        expected: usize,
        /// Numbers that are given.
        found: usize,
        /// Their names.
        names: String,
    },
    /// Two launches on the simulator that differ.
    #[error(
        "two launches gave different bits\n  CTAs share the keys of a tile, and the second launch found another workspace than the first\n  help: this is a fault of the kernel; please report the spec and the shape"
    )]
    Launches,
    /// Vectors of the score that are missing, or that it does not have.
    #[error(
        "the score reads {expected} vectors, and {found} are given\n  help: one for each of `{names}`, in this order"
    )]
    Vectors {
        /// Parameters of the score that are vectors.
        expected: usize,
        /// Vectors that are given.
        found: usize,
        /// Their names.
        names: String,
    },
    /// A vector of the score has another element type than its parameter.
    #[error(
        "`{name}` is a vector of {found}, and the score reads {expected}\n  help: cast it, or a score that reads {found}"
    )]
    Vector {
        /// The parameter.
        name: String,
        /// The vector's element type.
        found: Dtype,
        /// The parameter's kind.
        expected: String,
    },
    /// Loading or launching.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device or its driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The simulator.
    #[cfg(feature = "simulator")]
    #[error(transparent)]
    Simulated(#[from] SimulatedError),
}

bsr_codegen::message_as_debug!(AttentionError);

impl AttentionError {
    /// Whether there is no device that could be used; as [`GpuError::is_no_device`].
    pub fn is_no_device(&self) -> bool {
        match self {
            Self::Gpu(error) => error.is_no_device(),
            Self::Kernel(error) => error.is_no_device(),
            _ => false,
        }
    }

    pub(super) fn size(fact: impl Into<String>, arithmetic: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Size { fact: fact.into(), arithmetic: arithmetic.into(), help: help.into() }
    }

    pub(super) fn mask(fact: impl Into<String>, help: &'static str) -> Self {
        Self::Mask { fact: fact.into(), help }
    }
}
