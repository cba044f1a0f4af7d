//! The element types of a matrix: `f16`, `bf16` and `f32`.

use std::fmt;

use bsr_codegen::Dtype;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for f32 {}
}

/// A type of matrix element: plain bytes without padding whose every value is also an `f32`.
///
/// Sealed: the three implementations are [`half::f16`], [`half::bf16`] and [`f32`].
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + fmt::Debug + fmt::Display + Send + Sync + 'static
{
    /// The name of this type in the spec grammar.
    const DTYPE: Dtype;
    /// Zero.
    const ZERO: Self;
    /// The largest finite value.
    const LARGEST: f64;

    /// The same value as `f64`; always exact.
    fn to_f64(self) -> f64;

    /// The nearest value of this type, ties to even, with a single rounding and the same result on every
    /// platform. Beyond [`LARGEST`](Self::LARGEST) it is an infinity; a NaN stays a NaN.
    fn from_f64(value: f64) -> Self;

    /// True unless the value is an infinity or a NaN.
    fn is_finite(self) -> bool;

    /// Widens `from` into `to` element by element; always exact.
    ///
    /// # Panics
    /// When the two lengths differ.
    fn widen(from: &[Self], to: &mut [f32]);

    /// The values as they lie in memory: little-endian, one after the other.
    fn to_bytes(values: &[Self]) -> Vec<u8>;

    /// The values that lie in memory as `bytes`; a piece of a value at the end is left out.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
}

impl Element for f16 {
    const DTYPE: Dtype = Dtype::F16;
    const ZERO: Self = f16::ZERO;
    const LARGEST: f64 = 65_504.0;

    fn to_f64(self) -> f64 {
        f64::from(self.to_f32())
    }

    fn from_f64(value: f64) -> Self {
        f16::from_f32(round_to_odd(value))
    }

    fn is_finite(self) -> bool {
        f16::is_finite(self)
    }

    fn widen(from: &[Self], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn to_bytes(values: &[Self]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|value| f16::from_le_bytes(*value)).collect()
    }
}

impl Element for bf16 {
    const DTYPE: Dtype = Dtype::BF16;
    const ZERO: Self = bf16::ZERO;
    const LARGEST: f64 = 3.389_531_389_251_535_5e38;

    fn to_f64(self) -> f64 {
        f64::from(self.to_f32())
    }

    fn from_f64(value: f64) -> Self {
        bf16::from_f32(round_to_odd(value))
    }

    fn is_finite(self) -> bool {
        bf16::is_finite(self)
    }

    fn widen(from: &[Self], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }

    fn to_bytes(values: &[Self]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|value| bf16::from_le_bytes(*value)).collect()
    }
}

impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
    const ZERO: Self = 0.0;
    const LARGEST: f64 = f32::MAX as f64;

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }

    fn widen(from: &[Self], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn to_bytes(values: &[Self]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
    }
}

/// Rounds to `f32` so that a second rounding to a narrower type is right: an inexact result is cut towards
/// zero and its last bit set, so it can never look like a tie.
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    let away = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(away)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every finite f16, ascending.
    fn finite_f16() -> Vec<f64> {
        let mut all: Vec<f64> =
            (0..=u16::MAX).map(f16::from_bits).filter(|v| v.is_finite()).map(Element::to_f64).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    #[test]
    fn every_f16_survives_the_round_trip() {
        for v in finite_f16() {
            assert_eq!(<f16 as Element>::from_f64(v).to_f64(), v);
        }
    }

    #[test]
    fn a_value_just_beside_a_tie_goes_to_its_side() {
        // 1 + 2^-11 is half way between 1 and the next f16, 1 + 2^-10; 2^-40 is lost in f32.
        let (tie, hair) = (1.0 + 2f64.powi(-11), 2f64.powi(-40));
        assert_eq!(<f16 as Element>::from_f64(tie).to_f64(), 1.0);
        assert_eq!(<f16 as Element>::from_f64(tie + hair).to_f64(), 1.0 + 2f64.powi(-10));
        assert_eq!(<f16 as Element>::from_f64(-tie - hair).to_f64(), -1.0 - 2f64.powi(-10));
        let tie = 1.0 + 2f64.powi(-10) + 2f64.powi(-11);
        assert_eq!(<f16 as Element>::from_f64(tie).to_f64(), 1.0 + 2f64.powi(-9));
        assert_eq!(<f16 as Element>::from_f64(tie - hair).to_f64(), 1.0 + 2f64.powi(-10));

        let tie = 1.0 + 2f64.powi(-8);
        assert_eq!(<bf16 as Element>::from_f64(tie).to_f64(), 1.0);
        assert_eq!(<bf16 as Element>::from_f64(tie + hair).to_f64(), 1.0 + 2f64.powi(-7));
    }

    #[test]
    fn the_middle_of_every_f16_pair_rounds_to_even_and_its_neighbours_apart() {
        for pair in finite_f16().windows(2) {
            let (low, high) = (pair[0], pair[1]);
            let middle = (low + high) / 2.0;
            let hair = (high - low) * 2f64.powi(-30);
            assert_eq!(<f16 as Element>::from_f64(middle - hair).to_f64(), low);
            assert_eq!(<f16 as Element>::from_f64(middle + hair).to_f64(), high);
            assert_eq!(<f16 as Element>::from_f64(middle).to_bits() & 1, 0, "{middle}");
        }
    }

    #[test]
    fn the_edges_of_the_range() {
        assert!(!Element::is_finite(<f16 as Element>::from_f64(65_520.0)));
        assert_eq!(<f16 as Element>::from_f64(65_519.0).to_f64(), <f16 as Element>::LARGEST);
        assert_eq!(<f16 as Element>::LARGEST, f16::MAX.to_f64());
        assert_eq!(<bf16 as Element>::LARGEST, bf16::MAX.to_f64());
        assert_eq!(<bf16 as Element>::from_f64(1e300), bf16::INFINITY);
        assert_eq!(<f16 as Element>::from_f64(-1e-300).to_bits(), 0x8000);
        assert!(<bf16 as Element>::from_f64(f64::NAN).is_nan());
        assert_eq!(<f16 as Element>::from_f64(f64::NEG_INFINITY), f16::NEG_INFINITY);
    }

    #[test]
    fn bytes_are_little_endian_and_come_back() {
        let values = [1.0f32, -2.5, f32::MIN_POSITIVE, f32::INFINITY];
        assert_eq!(f32::to_bytes(&values)[..4], [0, 0, 0x80, 0x3F]);
        assert_eq!(f32::from_bytes(&f32::to_bytes(&values)), values);
        let halves: Vec<f16> = finite_f16().into_iter().map(<f16 as Element>::from_f64).collect();
        assert_eq!(f16::from_bytes(&f16::to_bytes(&halves)), halves);
        assert_eq!(bf16::to_bytes(&[bf16::ONE]), [0x80, 0x3F]);
        assert_eq!(bf16::from_bytes(&[0x80, 0x3F, 0x80]), [bf16::ONE]);
    }

    #[test]
    fn widening_is_exact() {
        let halves: Vec<f16> = (0..1000).map(|i| f16::from_bits(i * 31)).collect();
        let mut wide = vec![0f32; halves.len()];
        Element::widen(&halves, &mut wide);
        assert!(halves.iter().zip(&wide).all(|(h, w)| h.to_f64() == f64::from(*w)));
    }
}
