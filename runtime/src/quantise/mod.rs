//! Operands in 8 bits, made of wider ones: values divided by scales that spread them over the range of the type.
//!
//! ```
//! use bsr_runtime::quantise::{Quantised, quantise};
//! use bsr_runtime::{Bsr, Dense, Layout, Pattern, Scale, e4m3, reference};
//!
//! let a = Bsr::<f32>::generate(Pattern::TopK(2), 64, 96, (16, 32), 0)?;
//! let b = Dense::<f32>::normal(96, 40, Layout::RowMajor, 0);
//! let Quantised::<e4m3, e4m3> { a: a8, b: b8, scales } = quantise(&a, &b, Scale::RowCol)?;
//!
//! // What an FP8 kernel multiplies, against what was meant: an element of e4m3 is off by at most 1 / 16.
//! let (got, want) = (reference::multiply_scaled(&a8, &b8, &scales)?, reference::multiply(&a, &b)?);
//! assert!(reference::relative_error(&got, &want) < 0.06);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The scale
//! Every group of values that shares a scale (see [`Scales`]) has `scale = amax / LARGEST`, where `amax` is the largest
//! magnitude in it and `LARGEST` the largest finite value of the 8-bit type: 448, 57344 or 127. It is 1 for a group of
//! zeros, and never below 2^-126, so that the quotient is finite. A value becomes the nearest 8-bit value of the
//! quotient, rounded once, ties to even, saturating (the rounding of the scale to f32 may lift a quotient a hair above
//! `LARGEST`); value and scale multiply to the value again but for that rounding. Under [`Scale::Unscaled`] values are
//! rounded as they are, and what lies beyond the range saturates.
//!
//! # NaN and infinities
//! Refused by default, with the place of the first. [`NanPolicy::Keep`] lets them through: a NaN stays one, and an
//! infinity becomes the largest finite value of its sign; neither has a say in a scale. Integers have no NaN, so
//! that one is refused under either policy.

mod bsr;
mod dense;
mod narrow;
#[cfg(test)]
mod tests;

use bsr_codegen::Scale;

pub use bsr::bsr;
pub use dense::dense;
pub use narrow::{NanPolicy, Narrow};
pub(crate) use narrow::{amax, narrow, scale_of};

use bsr_codegen::Refusal;

use crate::extents::inner;
use crate::{Bsr, Dense, Element, Scales};

/// Both operands of a product in 8 bits.
#[derive(Clone, Debug)]
pub struct Quantised<A, B> {
    /// A, with the structure it had.
    pub a: Bsr<A>,
    /// B, column-major: along K, as the tensor cores read 8-bit operands.
    pub b: Dense<B>,
    /// What the sums of their products are multiplied by.
    pub scales: Scales,
}

/// Quantises both operands of A * B with scales of this kind, refusing NaN and infinities.
///
/// # Errors
/// The first NaN or infinity; a B that does not have as many rows as A has columns.
pub fn quantise<A: Narrow, B: Narrow, S: Element, T: Element>(
    a: &Bsr<S>,
    b: &Dense<T>,
    scale: Scale,
) -> Result<Quantised<A, B>, Refusal> {
    if a.cols() != b.rows() {
        return Err(inner((a.rows(), a.cols()), (b.rows(), b.cols())));
    }
    let (narrow_a, a_scales) = bsr(a, scale, NanPolicy::Refuse)?;
    let (narrow_b, b_scales) = dense(b, scale, a.block().1, NanPolicy::Refuse)?;
    let scales = Scales::from_parts(scale, a_scales, b_scales);
    Ok(Quantised { a: narrow_a, b: narrow_b, scales })
}
