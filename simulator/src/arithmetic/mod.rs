//! Bit-exact arithmetic on values of PTX types.

pub(crate) mod atomic;
mod bits;
mod directed;
pub(crate) mod float;
pub(crate) mod int;
pub(crate) mod numbers;
pub(crate) mod product;
