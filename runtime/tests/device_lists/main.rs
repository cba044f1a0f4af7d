//! The lists that kernels make of a pattern on the GPU: against a model, against the host's lists, and of patterns that
//! are wrong.
#![allow(clippy::unwrap_used)]

mod arrays;
mod attention;
mod balance;
mod grouping;
mod locality;
mod model;
mod products;
mod shapes;
mod shared;
mod simulate;
mod split;
