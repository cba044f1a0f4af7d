//! What a program gives a product and what it gets, on a GPU and on the simulator: matrices, further operands, results.

pub mod arguments;
pub(crate) mod matrix;
pub mod operation;
#[cfg(feature = "simulator")]
pub(crate) mod outcome;
pub(crate) mod sample;
