//! Why a trial does not succeed.

use std::fmt;

use bsr_codegen::{PlanErrors, Refusal};
use bsr_runtime::KernelError;
use bsr_runtime::attention::AttentionError;
use bsr_runtime::gpu::GpuError;
use bsr_runtime::read::ReadError;
use bsr_runtime::reference::WrongResult;
use bsr_runtime::simulated::{ParseError, SimulatedError};

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A wrong result, or a machine that failed.
    Wrong,
    /// There is no such problem, or no such kernel.
    BadInput,
    /// There is no GPU for the kernel.
    NoDevice,
}

/// A trial that did not succeed, in words: the fact, the arithmetic, the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    kind: FailureKind,
    message: String,
}

impl Failure {
    /// A failure of some kind.
    pub fn new(kind: FailureKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// A problem, or a kernel, that does not exist.
    pub fn bad_input(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::BadInput, message)
    }

    /// A wrong result, or a machine that failed.
    pub fn wrong(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Wrong, message)
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// The words.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Errors that are of one kind, whatever they say.
macro_rules! failures {
    ($($kind:ident: $($error:ty),+;)+) => {$($(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(FailureKind::$kind, error)
            }
        }
    )+)+};
}

failures! {
    BadInput: ParseError, PlanErrors, ReadError, Refusal, SimulatedError;
    Wrong: WrongResult;
}

impl From<GpuError> for Failure {
    fn from(error: GpuError) -> Self {
        let kind = match &error {
            GpuError::WrongTarget { .. } => FailureKind::NoDevice,
            _ if error.is_no_device() => FailureKind::NoDevice,
            GpuError::OutOfMemory { .. } | GpuError::TooLarge { .. } => FailureKind::BadInput,
            _ => FailureKind::Wrong,
        };
        Self::new(kind, error)
    }
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Gpu(error) => error.into(),
            error => Self::bad_input(error),
        }
    }
}

impl From<AttentionError> for Failure {
    fn from(error: AttentionError) -> Self {
        match error {
            AttentionError::Gpu(error) => error.into(),
            AttentionError::Kernel(error) => error.into(),
            AttentionError::Simulated(error) => error.into(),
            error => Self::bad_input(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_device_and_a_failing_one_are_of_different_kinds() {
        assert_eq!(Failure::from(GpuError::NoDevice).kind(), FailureKind::NoDevice);
        assert_eq!(Failure::from(KernelError::Gpu(GpuError::NoDriver)).kind(), FailureKind::NoDevice);
        let jit = GpuError::Jit { driver: String::new(), log: String::new() };
        assert_eq!(Failure::from(jit).kind(), FailureKind::Wrong);
    }
}
