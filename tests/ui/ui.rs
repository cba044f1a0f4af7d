//! What crates outside the workspace see of the library: the errors of the attribute, the program of the README.
#![allow(clippy::unwrap_used)]

mod outside;
mod readme;
mod refused;
