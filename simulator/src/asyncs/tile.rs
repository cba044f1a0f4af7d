//! The geometry of a tensor box: which bytes of global memory each row of it holds, and where they go.

use crate::address::SHARED_BASE;
use crate::machine::tensor_map::{TensorElement, TensorMapDesc};

/// One row of a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// First byte of the row within the tensor, when any of it is inside.
    pub(crate) start: u64,
    /// Elements of the row that are inside the tensor: a range of the box's inner dimension.
    pub(crate) inside: std::ops::Range<u32>,
}

impl Row {
    /// One of which nothing is inside the tensor.
    pub(super) const OUTSIDE: Self = Self { start: 0, inside: 0..0 };
}

impl TensorMapDesc {
    /// Elements of the box along a dimension. Along the innermost one TMA knows no stride, and in im2col mode strides do not
    /// change how many pixels are moved.
    pub(crate) fn extent(&self, d: usize) -> u32 {
        let dense = d == 0 || self.im2col.is_some();
        if dense { self.box_dims[d] } else { self.box_dims[d].div_ceil(self.element_strides[d]) }
    }

    pub(crate) fn row_count(&self) -> u32 {
        (1..self.box_dims.len()).map(|d| self.extent(d)).product()
    }

    pub(crate) fn row_bytes(&self) -> u32 {
        self.extent(0) * self.element.bytes()
    }

    /// Row `r` of the box at `coords`, behind which the offsets of im2col mode are.
    pub(crate) fn row(&self, coords: &[i64], r: u32) -> Row {
        if let Some(mode) = &self.im2col {
            return self.pixel(mode, coords, r);
        }
        let mut rest = r;
        let mut start = 0u64;
        for (d, c) in coords.iter().enumerate().take(self.dims.len()).skip(1) {
            let n = self.extent(d);
            let at = c + i64::from(rest % n * self.element_strides[d]);
            rest /= n;
            if at < 0 || at as u64 >= self.dims[d] {
                return Row::OUTSIDE;
            }
            start += at as u64 * self.strides[d - 1];
        }
        self.inner(coords[0], start)
    }

    /// A row from `x` on along the innermost dimension, of a line of the tensor that begins at `start`.
    pub(super) fn inner(&self, x: i64, start: u64) -> Row {
        let (n, extent) = (i64::from(self.box_dims[0]), self.dims[0] as i64);
        // x + j in 0..extent
        let (first, last) = ((-x).max(0), (extent - x).min(n));
        if first >= last {
            return Row::OUTSIDE;
        }
        let byte = (x + first) as u64 * u64::from(self.element.bytes());
        Row { start: start + byte, inside: first as u32..last as u32 }
    }

    /// The bytes of a row of the box that a store or a reduction moves. Behind the tensor's end it also has what is left of 16 bytes of
    /// global memory, if the box does, as the hardware does (AGREEMENT.md). In front nothing is added: a store begins within the tensor,
    /// at such a boundary.
    pub(crate) fn stored(&self, row: &Row) -> std::ops::Range<u32> {
        let e = self.element.bytes();
        let (from, to) = (row.inside.start * e, row.inside.end * e);
        let end = row.start + u64::from(to - from);
        let over = if from == to { 0 } else { (end.next_multiple_of(16) - end) as u32 };
        from..(to + over).min(self.row_bytes())
    }

    /// The bytes of elements outside the tensor.
    pub(crate) fn fill(&self, out: &mut [u8]) {
        use TensorElement::{Bf16, F16, F32, F64, Tf32};
        // 0x7ff7 in every 16 bits, whatever the type (AGREEMENT.md): a NaN of each of them.
        if self.fill_nan && matches!(self.element, F16 | Bf16 | F32 | Tf32 | F64) {
            out.iter_mut().enumerate().for_each(|(i, byte)| *byte = [0xf7, 0x7f][i % 2]);
        } else {
            out.fill(0);
        }
    }

    /// Where 16-byte unit `unit` of row `r` is, as an offset in the block's shared memory.
    pub(crate) fn unit(&self, to: u32, r: u32, unit: u32) -> u32 {
        let linear = SHARED_BASE + to + r * self.row_pitch() + unit * 16;
        self.swizzle.apply(linear) - SHARED_BASE
    }

    /// Do the rows fill shared memory without holes, so that a range of rows is a range of bytes?
    pub(crate) fn dense(&self) -> bool {
        self.row_pitch() == self.row_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::global::GlobalMemory;
    use crate::machine::tensor_map::Swizzle;

    fn map(dims: [u64; 2], boxed: [u32; 2], swizzle: Swizzle) -> TensorMapDesc {
        let mut m = GlobalMemory::new();
        let id = m.alloc(16, 16);
        TensorMapDesc::matrix(id, TensorElement::F16, dims, 256, boxed, swizzle)
    }

    #[test]
    fn rows_are_clipped_on_every_side() {
        let m = map([100, 10], [64, 8], Swizzle::B128);
        assert_eq!(m.row(&[0, 0], 3), Row { start: 3 * 256, inside: 0..64 });
        assert_eq!(m.row(&[64, 0], 0), Row { start: 128, inside: 0..36 });
        assert_eq!(m.row(&[-8, 0], 0), Row { start: 0, inside: 8..64 });
        assert_eq!(m.row(&[0, 8], 2), Row { start: 0, inside: 0..0 });
        assert_eq!(m.row(&[0, -1], 0), Row { start: 0, inside: 0..0 });
        assert_eq!(m.row(&[0, -1], 1), Row { start: 0, inside: 0..64 });
        assert_eq!(m.row(&[100, 0], 0), Row { start: 0, inside: 0..0 });
    }

    #[test]
    fn a_clipped_store_ends_at_16_bytes_of_global_memory() {
        let m = map([101, 10], [64, 8], Swizzle::B128);
        let stored = |coords: [i64; 2]| m.stored(&m.row(&coords, 0));
        assert_eq!(stored([0, 0]), 0..128);
        // 202 bytes of a row; 208 are written.
        assert_eq!(stored([64, 0]), 0..80);
        // From byte 136 on, as no copy begins: the box's 72nd byte is the row's 208th.
        assert_eq!(stored([68, 0]), 0..72);
        // No further than the box.
        let m = map([101, 10], [16, 8], Swizzle::None);
        assert_eq!(m.stored(&m.row(&[86, 0], 0)), 0..32);
        assert_eq!(m.stored(&m.row(&[101, 0], 0)), 0..0);
    }

    #[test]
    fn the_swizzle_permutes_units_within_a_row() {
        let m = map([64, 64], [64, 64], Swizzle::B128);
        // Shared memory starts at a multiple of 1024, so row r moves unit u to u ^ (r % 8).
        for r in 0..16 {
            for u in 0..8 {
                assert_eq!(m.unit(0, r, u), r * 128 + (u ^ (r % 8)) * 16);
            }
        }
        let m = map([64, 64], [32, 64], Swizzle::B64);
        for r in 0..16 {
            for u in 0..4 {
                assert_eq!(m.unit(0, r, u), r * 64 + (u ^ (r / 2 % 4)) * 16);
            }
        }
        let m = map([64, 64], [16, 64], Swizzle::B32);
        for r in 0..16 {
            for u in 0..2 {
                assert_eq!(m.unit(0, r, u), r * 32 + (u ^ (r / 4 % 2)) * 16);
            }
        }
    }
}
