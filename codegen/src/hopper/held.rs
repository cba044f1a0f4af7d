//! Slices of a tile's rows that consumers hold in registers as the A operand of WGMMA, loaded once for each tile.

use serde::Serialize;

use super::OperandTile;
use super::permuted::swizzle;

/// Columns of a slice of 16-bit operands: K of one WGMMA.
pub(crate) const SLICE: u32 = SLICE_BYTES / 2;
/// Bytes of a row of a slice: K of one WGMMA, of which a thread's registers have the same bytes for 8 and for 16 bits (PTX ISA,
/// "Register fragments for wgmma.mma_async.m64nNk16" and "k32").
pub(crate) const SLICE_BYTES: u32 = 32;
/// Registers of a thread that a slice takes.
pub(crate) const SLICE_REGISTERS: u32 = 4;

/// Fragments of one operand that consumers load before a tile's first step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Held {
    /// Which of the products' operands.
    operand: usize,
    /// Columns of a slice, and of the 16 bytes that a row of a matrix of `ldmatrix` has.
    columns: u32,
    vector: u32,
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
        let slice = |number: u32| HeldSlice {
            registers: registers(operand, number),
            flip: SLICE_BYTES * number % tile.span,
            at: offset + SLICE_BYTES * number / tile.span * tile.panel_bytes(),
        };
        let columns = SLICE_BYTES / tile.element;
        Self {
            operand,
            columns,
            vector: columns / 2,
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
