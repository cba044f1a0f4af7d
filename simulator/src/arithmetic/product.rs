//! C += A * B, as matrix instructions do it.

use super::numbers::{from_f64, raw, to_f32, widen};
use crate::program::types::{Ty, sign_extend};

/// What products are summed in: single precision, or 32-bit integers.
pub(crate) trait Element: Copy + Default + std::ops::Neg<Output = Self> {
    /// The value of the low bits of `raw`, exactly.
    fn of(raw: u64, ty: Ty) -> Self;
    /// The values of elements that are contiguous in memory.
    fn widen(bytes: &[u8], ty: Ty, out: &mut Vec<Self>) {
        out.extend(bytes.chunks(ty.bytes() as usize).map(|element| Self::of(raw(element), ty)));
    }
    /// The bits of the value in the type of an accumulator.
    fn bits(self, ty: Ty) -> u64;
    /// The value whose 32 bits these are, and back.
    fn of_word(word: u32) -> Self;
    fn word(self) -> u32;
    /// `self + x * y`
    fn plus(self, x: Self, y: Self) -> Self;
}

impl Element for f32 {
    #[inline]
    fn of(raw: u64, ty: Ty) -> Self {
        to_f32(raw, ty)
    }

    fn widen(bytes: &[u8], ty: Ty, out: &mut Vec<Self>) {
        widen(bytes, ty, out);
    }

    #[inline]
    fn bits(self, ty: Ty) -> u64 {
        if ty == Ty::F16 { from_f64(f64::from(self), ty) } else { u64::from(self.to_bits()) }
    }

    #[inline]
    fn of_word(word: u32) -> Self {
        Self::from_bits(word)
    }

    #[inline]
    fn word(self) -> u32 {
        self.to_bits()
    }

    #[inline]
    fn plus(self, x: Self, y: Self) -> Self {
        self + x * y
    }
}

impl Element for i32 {
    #[inline]
    fn of(raw: u64, ty: Ty) -> Self {
        if ty.signed() { sign_extend(raw & ty.mask(), ty.bits()) as Self } else { (raw & ty.mask()) as Self }
    }

    #[inline]
    fn bits(self, _: Ty) -> u64 {
        u64::from(self as u32)
    }

    #[inline]
    fn of_word(word: u32) -> Self {
        word.cast_signed()
    }

    #[inline]
    fn word(self) -> u32 {
        self.cast_unsigned()
    }

    #[inline]
    fn plus(self, x: Self, y: Self) -> Self {
        self.wrapping_add(x.wrapping_mul(y))
    }
}

/// C += A * B, row-major, `n` columns; in the order of k.
pub(crate) fn multiply<T: Element>(c: &mut [T], a: &[T], b: &[T], n: usize, k: usize) {
    for (row, a) in c.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
        // Four products at a time, one after the other: an element of C stays in its register between them.
        let (fours, rest) = a.as_chunks::<4>();
        for (x, b) in fours.iter().zip(b.chunks_exact(4 * n)) {
            let ((b0, b1), (b2, b3)) = (b[..2 * n].split_at(n), b[2 * n..].split_at(n));
            let lines = b0.iter().zip(b1).zip(b2.iter().zip(b3));
            for (c, ((y0, y1), (y2, y3))) in row.iter_mut().zip(lines) {
                *c = c.plus(x[0], *y0).plus(x[1], *y1).plus(x[2], *y2).plus(x[3], *y3);
            }
        }
        for (x, b) in rest.iter().zip(b[fours.len() * 4 * n..].chunks_exact(n)) {
            for (c, y) in row.iter_mut().zip(b) {
                *c = c.plus(*x, *y);
            }
        }
    }
}

/// C += A * B, row-major, `n` columns, of an A of `k` elements in each row, whose places along K are `at`.
pub(crate) fn multiply_sparse<T: Element>(c: &mut [T], a: &[T], at: &[u32], b: &[T], n: usize, k: usize) {
    let rows = a.chunks_exact(k).zip(at.chunks_exact(k));
    for (row, (a, at)) in c.chunks_exact_mut(n).zip(rows) {
        for (x, place) in a.iter().zip(at) {
            for (c, y) in row.iter_mut().zip(&b[*place as usize * n..]) {
                *c = c.plus(*x, *y);
            }
        }
    }
}

/// C += A * B of integers. The sum of one instruction's products fits 32 bits; the accumulator wraps, or stops at the
/// ends of its range.
pub(crate) fn multiply_integers(c: &mut [i32], a: &[i32], b: &[i32], n: usize, k: usize, saturate: bool) {
    add_integers(c, saturate, |c| multiply(c, a, b, n, k));
}

/// Adds what `multiply` adds; the accumulator wraps, or stops at the ends of its range.
pub(crate) fn add_integers(c: &mut [i32], saturate: bool, multiply: impl FnOnce(&mut [i32])) {
    if !saturate {
        return multiply(c);
    }
    let mut sums = vec![0; c.len()];
    multiply(&mut sums);
    for (c, s) in c.iter_mut().zip(sums) {
        *c = c.saturating_add(s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_or_stop() {
        let mut c = [i32::MAX, i32::MIN];
        multiply_integers(&mut c, &[1], &[1, -1], 2, 1, false);
        assert_eq!(c, [i32::MIN, i32::MAX]);
        let mut c = [i32::MAX, i32::MIN];
        multiply_integers(&mut c, &[1], &[1, -1], 2, 1, true);
        assert_eq!(c, [i32::MAX, i32::MIN]);
        assert_eq!((i32::of(0xff, Ty::S8), i32::of(0xff, Ty::U8)), (-1, 255));
    }
}
