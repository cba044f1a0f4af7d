//! What a simulated kernel leaves.

use super::operation::{Dsd, Operation, Sdd};
use crate::error::KernelError;
use crate::{Dense, Element};

/// C as a kernel leaves it, whichever it is.
#[derive(Clone, Debug)]
pub(crate) enum Outcome<C> {
    Dense(Dense<C>),
    /// The values of the blocks of an SDDMM.
    Blocks(Vec<C>),
}

/// C as a kernel leaves it: a [`Dense`], or the values of the blocks of an SDDMM, block after block, row by row, what
/// extends beyond the edge of the matrix included.
pub trait Values<C: Element>: Sized {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn of(outcome: Outcome<C>) -> Result<Self, KernelError>;
}

#[allow(private_interfaces)]
impl<C: Element> Values<C> for Dense<C> {
    fn of(outcome: Outcome<C>) -> Result<Self, KernelError> {
        match outcome {
            Outcome::Dense(c) => Ok(c),
            Outcome::Blocks(_) => Err(KernelError::Factors { expected: Sdd::OP }),
        }
    }
}

#[allow(private_interfaces)]
impl<C: Element> Values<C> for Vec<C> {
    fn of(outcome: Outcome<C>) -> Result<Self, KernelError> {
        match outcome {
            Outcome::Blocks(values) => Ok(values),
            Outcome::Dense(_) => Err(KernelError::Result { op: Dsd::OP }),
        }
    }
}
