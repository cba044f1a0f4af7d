//! What the parser takes and what each instruction does, against the ISA's tables and references in Rust.
#![allow(clippy::unwrap_used)]

mod clipped;
mod double;
mod epilogue;
mod foreign;
mod formats;
mod fp8;
mod im2col;
mod instructions;
mod maps;
mod mma;
mod parse;
mod posts;
mod scalar;
mod stores;
mod targets;
mod tensor;
mod wgmma;
mod wgmma8;
mod wgmma_sp;
mod wmma;
