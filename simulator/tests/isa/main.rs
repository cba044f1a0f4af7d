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
mod mma_narrow;
mod mma_sp;
mod more;
mod parse;
mod posts;
mod reductions;
mod scalar;
mod sparse;
mod stores;
mod targets;
mod tensor;
mod wgmma;
mod wgmma8;
mod wgmma_sp;
mod wmma;

use bsr_simulator::{Launch, Param};

/// A launch of one CTA.
fn one_cta(threads: u32, shared_bytes: u32, params: Vec<Param>) -> Launch {
    Launch { grid: [1; 3], cluster: [1; 3], block: [threads, 1, 1], shared_bytes, params }
}
