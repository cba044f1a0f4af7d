//! How many products of a 16-bit type are added in that type.
//!
//! `fma.rn.f16x2` does two multiply-adds where `fma.rn.f32` does one, but rounds every sum to p bits: 11 for f16, 8 for
//! bf16. With u = 2^-p, a chain of n such steps is off by at most n u times the sum of its |a b|, and for products of
//! random sign by about
//!
//! ```text
//! rms(error) / rms(chain) = u / sqrt(6) * sqrt((n + 1) / 2)      a rounding is off by u / sqrt(6) of the partial sum,
//!                                                                on average over a binade; step i's has size sqrt(i)
//! f16,  n = 16:   4.9e-4 * 0.41 * 2.9 = 5.8e-4                   (rounding C to f16: 2.0e-4)
//! bf16, n = 8:    3.9e-3 * 0.41 * 2.1 = 3.4e-3                   (rounding C to bf16: 1.6e-3)
//! ```
//!
//! The chains of a row are summed in f32, and their errors are independent: so large they stay, relative to C, however
//! long K is. A chain that goes on over all of K would be off by sqrt(K / n) times as much.
//!
//! A chain also has the range of its type: products of f16 that exceed 65504 become infinite, and sums below 6e-8
//! vanish, where f32 would have kept them.

use crate::Dtype;

/// Steps of a chain; none where products are added in f32 at once.
pub(crate) const fn length(dtype: Dtype) -> Option<u32> {
    match dtype {
        Dtype::F16 => Some(16),
        Dtype::BF16 => Some(8),
        _ => None,
    }
}
