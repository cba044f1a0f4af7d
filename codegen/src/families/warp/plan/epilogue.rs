//! Step 3: how a warp's accumulators become C: subtile by subtile through shared memory.

use serde::Serialize;

use super::tiling::Tiling;
use super::units::{BANKS, VECTOR_BYTES};
use super::{doubles, fused};
use crate::{Dtype, KernelSpec, Layout, Mma};

/// The subtile of a warp: lines of C, as long as the warp's tile, of one fragment's rows (or columns).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Epilogue {
    /// Lines of a subtile.
    pub(crate) lines: u32,
    /// Subtiles of a warp's tile.
    pub(crate) subtiles: u32,
    /// Elements of a line.
    pub(crate) length: u32,
    /// What is staged: C's own type, or the sums, of opaque fragments and where results are computed of them.
    pub(crate) staged: Dtype,
    /// Bytes from one line of a subtile to the next; 0 where sums go to C from registers.
    pub(crate) pitch: u32,
    /// Lanes that store one line, 16 bytes each.
    pub(crate) lanes: u32,
    /// Parts of a line that a lane stores one after the other.
    pub(crate) parts: u32,
    /// Lines that a warp stores at once.
    pub(crate) lines_a_pass: u32,
}

impl Epilogue {
    pub(crate) fn new(spec: &KernelSpec, tiling: &Tiling) -> Self {
        let (m, n) = tiling.fragment;
        let (lines, all, length) = match spec.c_layout {
            Layout::RowMajor => (m, tiling.warp_m, tiling.warp_n),
            Layout::ColMajor => (n, tiling.warp_n, tiling.warp_m),
        };
        let staged = match spec.mma {
            _ if fused::is_on(spec) => Dtype::F32,
            Mma::Wmma => spec.acc,
            _ => spec.out,
        };
        let vectors = length * spec.out.bytes() / VECTOR_BYTES;
        let lanes = (1..=vectors.clamp(1, 32)).rev().find(|lanes| vectors.is_multiple_of(*lanes)).unwrap_or(1);
        Self {
            lines,
            subtiles: all / lines,
            length,
            staged,
            pitch: if staged_bytes(spec) == 0 { 0 } else { length * staged.bytes() + padding(spec, staged) },
            lanes,
            parts: vectors / lanes,
            lines_a_pass: (1 << (32 / lanes).ilog2()).min(lines),
        }
    }

    /// Bytes of a warp's subtile.
    pub(crate) fn subtile_bytes(&self) -> u32 {
        (self.lines * self.pitch).next_multiple_of(BANKS)
    }
}

/// Bytes that an element of C takes in a subtile. Of f64 nothing is staged: eight threads' sums are neighbours in memory,
/// whole sectors of 32 bytes, and subtiles would take the room of stages.
pub(super) fn staged_bytes(spec: &KernelSpec) -> u32 {
    match spec.mma {
        _ if fused::is_on(spec) => Dtype::F32.bytes(),
        Mma::Wmma => spec.acc.bytes(),
        _ if doubles::takes(spec) => 0,
        _ => spec.out.bytes(),
    }
}

/// Bytes between lines, so that a warp's writes touch every bank once: 8-byte writes of neighbouring lines are 8 words
/// apart, 4-byte writes 4 words.
fn padding(spec: &KernelSpec, staged: Dtype) -> u32 {
    if staged.bytes() == 4 && spec.mma == Mma::MmaSync && spec.c_layout == Layout::RowMajor { 32 } else { 16 }
}
