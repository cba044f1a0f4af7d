//! Attentions: what is attended to, and whether O and LSE are right.

mod problem;
mod verify;

pub use problem::{Problem, expected};
pub use verify::{tolerance, verdict};
