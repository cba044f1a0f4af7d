//! The checker: happens-before by vector clocks, states of memory bytes, and what is reported.

pub(crate) mod clock;
mod finding;
pub(crate) mod shadow;

pub use finding::{Finding, FindingKind, Side};
