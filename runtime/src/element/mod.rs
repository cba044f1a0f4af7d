//! The element types of a matrix: floats of 64, 32, 16 and 8 bits, integers of 8 and 32.

mod fp8;
#[cfg(test)]
mod tests;

use std::fmt;

use bsr_codegen::Dtype;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

pub use fp8::{e4m3, e5m2};

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for super::e4m3 {}
    impl Sealed for super::e5m2 {}
    impl Sealed for i8 {}
    impl Sealed for i32 {}
}

/// A type of matrix element: plain bytes without padding whose every value is also an `f64`.
///
/// Sealed: the implementations are [`half::f16`], [`half::bf16`], [`f32`], [`f64`], [`e4m3`], [`e5m2`], [`i8`] and [`i32`].
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + fmt::Debug + fmt::Display + Send + Sync + 'static
{
    /// The name of this type in the spec grammar.
    const DTYPE: Dtype;
    /// Zero.
    const ZERO: Self;
    /// The largest finite value.
    const LARGEST: f64;
    /// Standard deviation of the values that `normal` draws: 1, and 20 of integers, which draw little else than 0
    /// with 1 and seldom go beyond an `i8` with 20.
    const SPREAD: f64;
    /// The byte that an output is filled with before a launch, to show what a kernel leaves unwritten.
    const POISON_BYTE: u8;
    /// The value whose every byte is [`POISON_BYTE`](Self::POISON_BYTE): a NaN; of integers, which have none, a
    /// number far from sums of a realistic length (-128 and -2139062144).
    const POISON: Self;

    /// The same value as `f64`; always exact.
    fn to_f64(self) -> f64;

    /// The nearest value of this type, ties to even, with a single rounding and the same result on every platform.
    ///
    /// | type | beyond [`LARGEST`](Self::LARGEST) | NaN |
    /// |---|---|---|
    /// | `f64`, `f32`, `f16`, `bf16` | an infinity | NaN |
    /// | `e4m3`, `e5m2` | the largest finite value, infinities too, as from `cvt.rn.satfinite` on the GPU | NaN |
    /// | `i8`, `i32` | the least or the largest integer, infinities too | 0 |
    fn from_f64(value: f64) -> Self;

    /// True unless the value is an infinity or a NaN; always true of integers.
    fn is_finite(self) -> bool;

    /// Widens `from` into `to` element by element; always exact.
    ///
    /// # Panics
    /// When the two lengths differ.
    fn widen(from: &[Self], to: &mut [f64]);

    /// The values as they lie in memory: little-endian, one after the other.
    fn to_bytes(values: &[Self]) -> Vec<u8>;

    /// The values that lie in memory as `bytes`; an incomplete value at the end is left out.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;

    /// Whether [`from_f64`](Self::from_f64) makes a finite value of everything but a NaN.
    fn saturates() -> bool {
        Self::from_f64(f64::INFINITY).is_finite()
    }
}

/// The values as `f64`.
pub(crate) fn widened<T: Element>(values: &[T]) -> Vec<f64> {
    let mut wide = vec![0.0; values.len()];
    T::widen(values, &mut wide);
    wide
}

/// Bytes of types that have `to_le_bytes` and `from_le_bytes`.
macro_rules! little_endian {
    () => {
        fn to_bytes(values: &[Self]) -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        }

        fn from_bytes(bytes: &[u8]) -> Vec<Self> {
            bytes.as_chunks().0.iter().map(|value| Self::from_le_bytes(*value)).collect()
        }
    };
}

macro_rules! half_element {
    ($type:ident, $dtype:ident, largest: $largest:literal) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            const ZERO: Self = $type::ZERO;
            const LARGEST: f64 = $largest;
            const SPREAD: f64 = 1.0;
            const POISON_BYTE: u8 = 0xFF;
            const POISON: Self = $type::from_bits(0xFFFF);

            fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }

            fn from_f64(value: f64) -> Self {
                $type::from_f32(round_to_odd(value))
            }

            fn is_finite(self) -> bool {
                $type::is_finite(self)
            }

            fn widen(from: &[Self], to: &mut [f64]) {
                from.convert_to_f64_slice(to);
            }

            little_endian!();
        }
    };
}

half_element!(f16, F16, largest: 65_504.0);
half_element!(bf16, BF16, largest: 3.389_531_389_251_535_5e38);

impl Element for f32 {
    const DTYPE: Dtype = Dtype::F32;
    const ZERO: Self = 0.0;
    const LARGEST: f64 = f32::MAX as f64;
    const SPREAD: f64 = 1.0;
    const POISON_BYTE: u8 = 0xFF;
    const POISON: Self = f32::from_bits(u32::MAX);

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }

    fn widen(from: &[Self], to: &mut [f64]) {
        widen_each(from, to);
    }

    little_endian!();
}

impl Element for f64 {
    const DTYPE: Dtype = Dtype::F64;
    const ZERO: Self = 0.0;
    const LARGEST: f64 = f64::MAX;
    const SPREAD: f64 = 1.0;
    const POISON_BYTE: u8 = 0xFF;
    const POISON: Self = f64::from_bits(u64::MAX);

    fn to_f64(self) -> f64 {
        self
    }

    fn from_f64(value: f64) -> Self {
        value
    }

    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }

    fn widen(from: &[Self], to: &mut [f64]) {
        to.copy_from_slice(from);
    }

    little_endian!();
}

macro_rules! fp8_element {
    ($type:ident, $dtype:ident) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            const ZERO: Self = $type::ZERO;
            const LARGEST: f64 = $type::MAX.to_f64();
            const SPREAD: f64 = 1.0;
            const POISON_BYTE: u8 = 0xFF;
            const POISON: Self = $type::from_bits(0xFF);

            fn to_f64(self) -> f64 {
                $type::to_f64(self)
            }

            fn from_f64(value: f64) -> Self {
                $type::from_f64(value)
            }

            fn is_finite(self) -> bool {
                $type::is_finite(self)
            }

            fn widen(from: &[Self], to: &mut [f64]) {
                widen_each(from, to);
            }

            fn to_bytes(values: &[Self]) -> Vec<u8> {
                values.iter().map(|value| value.to_bits()).collect()
            }

            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                bytes.iter().map(|&bits| $type::from_bits(bits)).collect()
            }
        }
    };
}

fp8_element!(e4m3, E4M3);
fp8_element!(e5m2, E5M2);

macro_rules! integer_element {
    ($type:ident, $dtype:ident) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            const ZERO: Self = 0;
            const LARGEST: f64 = $type::MAX as f64;
            const SPREAD: f64 = 20.0;
            const POISON_BYTE: u8 = 0x80;
            const POISON: Self = $type::from_le_bytes([Self::POISON_BYTE; size_of::<$type>()]);

            fn to_f64(self) -> f64 {
                f64::from(self)
            }

            fn from_f64(value: f64) -> Self {
                // The cast saturates, and makes 0 of a NaN.
                value.round_ties_even() as $type
            }

            fn is_finite(self) -> bool {
                true
            }

            fn widen(from: &[Self], to: &mut [f64]) {
                widen_each(from, to);
            }

            little_endian!();
        }
    };
}

integer_element!(i8, I8);
integer_element!(i32, I32);

/// Widens one by one.
fn widen_each<T: Element>(from: &[T], to: &mut [f64]) {
    assert_eq!(from.len(), to.len(), "a slice widens into one of its own length");
    from.iter().zip(to).for_each(|(value, wide)| *wide = value.to_f64());
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
