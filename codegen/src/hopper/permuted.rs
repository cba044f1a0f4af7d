//! Rows of C in an order of the launch: staging is read by all threads of a warpgroup, 16 bytes at a time, and written to
//! the rows that the order names. The end of a row that is no whole vector is C's own padding, as with TMA.

use serde::Serialize;

use super::store::StoreBox;

/// Threads of a warpgroup.
const THREADS: u32 = 128;
/// Bytes of a vector, which one of them moves at a time.
const VECTOR_BYTES: u32 = 16;

/// A subtile of the store, row by row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StoredRows {
    /// Vectors of a line of staging, as a power of two and less one; elements of a vector.
    vector_shift: u32,
    vector_mask: u32,
    elements: u32,
    /// The swizzle: vectors of a line are XORed with these bits of its number.
    swizzle_shift: u32,
    swizzle_mask: u32,
    /// Bytes of a line of staging, and of an element.
    span: u32,
    bytes: u32,
    units: Vec<Unit>,
}

/// A part of staging with contiguous lines.
#[derive(Clone, Debug, Serialize)]
struct Unit {
    column: u32,
    lines: Vec<Lines>,
}

/// As many lines as the threads of a warpgroup move at a time.
#[derive(Clone, Debug, Serialize)]
struct Lines {
    row: u32,
    /// Lines of the unit that are left, where these are fewer.
    bound: Option<u32>,
    at: u32,
}

impl StoredRows {
    /// Boxes of `rows` lines of `span` bytes.
    pub(crate) fn new((span, rows, bytes): (u32, u32, u32), boxes: &[StoreBox]) -> Self {
        let vectors = span / VECTOR_BYTES;
        let (swizzle_shift, swizzle_mask) = swizzle(span);
        // As many lines at a time: a multiple of the 8 after which a swizzle repeats.
        let together = THREADS * VECTOR_BYTES / span;
        let lines = |from: u32, of: &StoreBox| Lines {
            row: of.outer + from,
            bound: (from + together > rows).then(|| rows - from),
            at: of.offset + from * span,
        };
        let unit = |of: &StoreBox| Unit {
            column: of.inner,
            lines: (0..rows).step_by(together as usize).map(|from| lines(from, of)).collect(),
        };
        Self {
            vector_shift: vectors.trailing_zeros(),
            vector_mask: vectors - 1,
            elements: VECTOR_BYTES / bytes,
            swizzle_shift,
            swizzle_mask,
            span,
            bytes,
            units: boxes.iter().map(unit).collect(),
        }
    }
}

/// How TMA swizzles lines of `span` bytes: bits of a line's number that its vectors are XORed with.
pub(crate) fn swizzle(span: u32) -> (u32, u32) {
    match span {
        128 => (0, 7),
        64 => (1, 3),
        32 => (2, 1),
        _ => (0, 0),
    }
}
