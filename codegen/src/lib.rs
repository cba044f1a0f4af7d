//! From a kernel spec to Hopper PTX, in pure Rust.
