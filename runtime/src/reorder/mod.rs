//! Orders of rows in which fewer blocks hold the same elements.

mod permutation;

pub use permutation::{Permutation, PermutationError};
