//! Slices of a tile's rows that consumers hold in registers as the A operand of WGMMA, loaded once for each tile.

use serde::Serialize;

use super::OperandTile;
use super::permuted::swizzle;

/// Columns of a slice: K of one WGMMA of 16-bit operands.
pub(crate) const SLICE: u32 = 16;
/// Registers of a thread that a slice takes.
pub(crate) const SLICE_REGISTERS: u32 = 4;

/// Fragments of one operand that consumers load before a tile's first step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Held {
    /// Which of the products' operands.
    operand: usize,
    span: u32,
    swizzle_shift: u32,
    swizzle_mask: u32,
    /// The register with the number of the tile's buffer, and the bytes of a buffer.
    buffer: &'static str,
    buffer_bytes: u32,
    slices: Vec<HeldSlice>,
}

#[derive(Clone, Debug, Serialize)]
struct HeldSlice {
    registers: [String; 4],
    flip: u32,
    /// From the start of shared memory, in the first buffer.
    at: u32,
}

impl Held {
    /// The first `slices` slices of an operand, whose first buffer begins at `offset`.
    pub(crate) fn new(
        operand: usize,
        tile: &OperandTile,
        slices: u32,
        (buffer, buffer_bytes, offset): (&'static str, u32, u32),
    ) -> Self {
        let (swizzle_shift, swizzle_mask) = swizzle(tile.span);
        let bytes = SLICE * tile.element;
        let slice = |number: u32| HeldSlice {
            registers: registers(operand, number),
            flip: bytes * number % tile.span,
            at: offset + bytes * number / tile.span * tile.panel_bytes(),
        };
        Self {
            operand,
            span: tile.span,
            swizzle_shift,
            swizzle_mask,
            buffer,
            buffer_bytes,
            slices: (0..slices).map(slice).collect(),
        }
    }
}

/// The registers of a slice.
pub(crate) fn registers(operand: usize, slice: u32) -> [String; 4] {
    [0, 1, 2, 3].map(|i| format!("%r_held{operand}_{}", 4 * slice + i))
}
