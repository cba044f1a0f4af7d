//! The product of two packed tiles.

use crate::array::Number;

/// Columns of a tile of sums.
pub(crate) const WIDTH: usize = 64;
/// Most rows of a tile of sums, so that what a thread needs does not grow with a block.
pub(crate) const LINES: usize = 256;
/// Most elements of K that are multiplied at once.
pub(crate) const DEPTH: usize = 256;
/// Columns that are summed at once, in registers.
const LANES: usize = 16;
/// Rows that are summed at once, in registers.
const AT_ONCE: usize = 4;

/// `sums[m][WIDTH] += a[m][k] * b[k][WIDTH]`, the products of a sum one after the other.
pub(crate) fn multiply<S: Number>(k: usize, a: &[S], b: &[S], sums: &mut [S]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these instructions.
        return unsafe { with_fma(k, a, b, sums) };
    }
    #[cfg(target_arch = "aarch64")]
    return every_line::<S, true>(k, a, b, sums);
    #[cfg(not(target_arch = "aarch64"))]
    every_line::<S, false>(k, a, b, sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_fma<S: Number>(k: usize, a: &[S], b: &[S], sums: &mut [S]) {
    every_line::<S, true>(k, a, b, sums);
}

#[inline(always)]
fn every_line<S: Number, const FUSED: bool>(k: usize, a: &[S], b: &[S], sums: &mut [S]) {
    if k == 0 {
        return;
    }
    let mut whole = sums.chunks_exact_mut(AT_ONCE * WIDTH);
    let mut factors = a.chunks_exact(AT_ONCE * k);
    for (sums, a) in (&mut whole).zip(&mut factors) {
        lines::<S, AT_ONCE, FUSED>(k, a, b, sums);
    }
    let rest = whole.into_remainder().chunks_exact_mut(WIDTH);
    for (sums, a) in rest.zip(factors.remainder().chunks_exact(k)) {
        lines::<S, 1, FUSED>(k, a, b, sums);
    }
}

#[inline(always)]
fn lines<S: Number, const N: usize, const FUSED: bool>(k: usize, a: &[S], b: &[S], sums: &mut [S]) {
    for first in (0..WIDTH).step_by(LANES) {
        let mut held = [[S::ZERO; LANES]; N];
        for (line, held) in held.iter_mut().enumerate() {
            held.copy_from_slice(&sums[line * WIDTH + first..][..LANES]);
        }
        for (at, b) in b.chunks_exact(WIDTH).take(k).enumerate() {
            let b = &b[first..first + LANES];
            for (line, held) in held.iter_mut().enumerate() {
                let factor = a[line * k + at];
                for (sum, b) in held.iter_mut().zip(b) {
                    *sum = sum.add_product::<FUSED>(factor, *b);
                }
            }
        }
        for (line, held) in held.iter().enumerate() {
            sums[line * WIDTH + first..][..LANES].copy_from_slice(held);
        }
    }
}
