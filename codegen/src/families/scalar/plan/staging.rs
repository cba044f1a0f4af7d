//! Step 3: how K of a block becomes stages, and what a stage is in shared memory.

use serde::Serialize;

use super::tile::Tile;
use crate::KernelSpec;

/// Bytes that a row of A gives to a stage of the vector kernel: two loads.
const VECTOR_ROW: u32 = 32;
/// Words that a line of A is longer than its rows: a warp's stores, 16 rows x 2 lines 4 apart, meet all 32 banks.
const PADDING: u32 = 4;

/// The stages of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Staging {
    /// Elements of K of a stage.
    pub(crate) k_step: u32,
    /// Stages of a block.
    pub(crate) steps: u32,
    /// 32-bit words from one line of A to the next.
    pub(crate) a_pitch: u32,
    /// The offset of B in a buffer.
    pub(crate) b_offset: u32,
    /// Bytes of A and B of one stage.
    pub(crate) buffer_bytes: u32,
    /// Stages in shared memory at once.
    pub(crate) buffers: u32,
}

impl Staging {
    /// One stage of f32, whatever the operands are: A by rows, B by rows.
    pub(crate) fn of_elements(spec: &KernelSpec, tile: &Tile) -> Self {
        let k_step = if spec.bk.is_multiple_of(16) { 16 } else { 8 };
        Self::new(spec, k_step, k_step, tile.cta_m * k_step * 4, k_step * tile.cta_n * 4, 1)
    }

    /// Two stages. A is transposed: line `i` has words `i` of all rows, one f32 or two 16-bit elements of K, so that a
    /// thread reads its rows 16 bytes at a time. B has its layout of global memory.
    pub(crate) fn of_vectors(spec: &KernelSpec, tile: &Tile) -> Self {
        let pitch = tile.cta_m + PADDING;
        Self::new(spec, VECTOR_ROW / spec.a.bytes(), pitch, pitch * VECTOR_ROW, VECTOR_ROW * tile.cta_n, 2)
    }

    fn new(spec: &KernelSpec, k_step: u32, a_pitch: u32, a_bytes: u32, b_bytes: u32, buffers: u32) -> Self {
        Self { k_step, steps: spec.bk / k_step, a_pitch, b_offset: a_bytes, buffer_bytes: a_bytes + b_bytes, buffers }
    }

    /// Bytes of shared memory.
    pub(crate) fn total(&self) -> u32 {
        self.buffers * self.buffer_bytes
    }
}
