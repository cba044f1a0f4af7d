//! The lists that kernels make of a pattern on the GPU: against their specification, against the host's lists, and of patterns that
//! are wrong.
#![allow(clippy::unwrap_used)]

mod arrays;
mod attention;
mod balance;
mod locality;
mod pages;
mod pairs;
mod products;
mod shapes;
mod shared;
mod simulate;
mod split;
