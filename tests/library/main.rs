//! The library as a program uses it: the attribute, and kernels of every operation on the simulator. One executable holds
//! these tests, because each one links the whole library.
#![allow(clippy::unwrap_used)]

pub mod accepted;
mod attention;
mod attribute;
mod auto;
mod fallback;
mod simulate;
