//! The two 8-bit floating-point formats of the Open Compute Project, as tensor cores multiply them.

use std::cmp::Ordering;
use std::fmt;

/// What tells one format from the other.
struct Fp8Format {
    /// Bits of the mantissa that are stored.
    mantissa: u32,
    /// What is subtracted from a stored exponent.
    bias: i32,
    /// The bits of the largest finite value.
    largest: u8,
    /// The bits of the NaN that conversions give.
    nan: u8,
}

impl Fp8Format {
    /// The nearest magnitude, ties to even, at most the largest finite one; `value` is no NaN.
    const fn round(&self, value: f64) -> u8 {
        let bits = value.to_bits() & (u64::MAX >> 1);
        let exponent = (bits >> 52) as i32 - 1023;
        let least = 1 - self.bias;
        if exponent < least - self.mantissa as i32 - 1 {
            // Below half of the smallest subnormal; subnormals of f64 too, whose exponent reads as the least.
            return 0;
        }
        if exponent > self.bias + 1 {
            return self.largest;
        }
        // The significand as an integer, its last bit worth 2^(exponent - 52), is to end at the last bit of the format.
        let significand = (bits & ((1 << 52) - 1)) | (1 << 52);
        let below = if exponent < least { (least - exponent) as u32 } else { 0 };
        let dropped = 52 - self.mantissa + below;
        let half = 1_u64 << (dropped - 1);
        let kept = significand >> dropped;
        let rest = significand & ((half << 1) - 1);
        let up = rest > half || (rest == half && kept & 1 == 1);
        // Stored exponent and mantissa count on: a carry out of the mantissa is the next exponent. A normal `kept`
        // has its leading bit, which is worth one stored exponent.
        let start = if exponent < least { 0 } else { ((exponent - least) as u64) << self.mantissa };
        let rounded = start + kept + up as u64;
        if rounded > self.largest as u64 { self.largest } else { rounded as u8 }
    }

    /// The value of bits as if there were neither NaN nor infinity.
    const fn value(&self, bits: u8) -> f32 {
        let (stored, mantissa) = ((bits & 0x7F) >> self.mantissa, bits & ((1 << self.mantissa) - 1));
        // The last bit of a subnormal is worth 2^(1 - bias - mantissa), exactly representable like all of these.
        let (significand, exponent) = match stored {
            0 => (mantissa, 1 - self.bias),
            _ => (mantissa | (1 << self.mantissa), stored as i32 - self.bias),
        };
        let unit = f32::from_bits(((exponent - self.mantissa as i32 + 127) as u32) << 23);
        let magnitude = significand as f32 * unit;
        if bits & 0x80 == 0 { magnitude } else { -magnitude }
    }
}

macro_rules! fp8 {
    ($type:ident, $format:expr, is_nan: $is_nan:expr, is_finite: $is_finite:expr, $(#[$doc:meta])*) => {
        $(#[$doc])*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $type(u8);

        impl $type {
            const FORMAT: Fp8Format = $format;
            /// The value of every byte.
            const VALUES: &[f32; 256] = &{
                let mut values = [0.0; 256];
                let mut bits = 0;
                while bits < 256 {
                    let value = Self(bits as u8);
                    values[bits] = match (value.is_finite(), value.is_nan(), bits < 0x80) {
                        (true, ..) => Self::FORMAT.value(value.0),
                        (_, true, _) => f32::NAN,
                        (.., true) => f32::INFINITY,
                        (.., false) => f32::NEG_INFINITY,
                    };
                    bits += 1;
                }
                values
            };
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// One.
            pub const ONE: Self = Self((Self::FORMAT.bias as u8) << Self::FORMAT.mantissa);
            /// The largest finite value.
            pub const MAX: Self = Self(Self::FORMAT.largest);
            /// The least finite value.
            pub const MIN: Self = Self(Self::FORMAT.largest | 0x80);
            /// The smallest positive normal value.
            pub const MIN_POSITIVE: Self = Self(1 << Self::FORMAT.mantissa);
            /// A NaN, the one that conversions give.
            pub const NAN: Self = Self(Self::FORMAT.nan);

            /// The value with these bits; all bits are a value.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest value, ties to even, rounded once. Beyond the largest finite value it is that value,
            /// for infinities too, as from `cvt.rn.satfinite` on the GPU; a NaN is [`NAN`](Self::NAN).
            pub const fn from_f64(value: f64) -> Self {
                if value.is_nan() {
                    return Self::NAN;
                }
                Self(Self::FORMAT.round(value) | if value.is_sign_negative() { 0x80 } else { 0 })
            }

            /// As [`from_f64`](Self::from_f64).
            pub const fn from_f32(value: f32) -> Self {
                Self::from_f64(value as f64)
            }

            /// The same value; always exact.
            pub const fn to_f32(self) -> f32 {
                Self::VALUES[self.0 as usize]
            }

            /// The same value; always exact.
            pub const fn to_f64(self) -> f64 {
                self.to_f32() as f64
            }

            /// True for a NaN.
            pub const fn is_nan(self) -> bool {
                let magnitude = self.0 & 0x7F;
                $is_nan(magnitude)
            }

            /// True unless the value is an infinity or a NaN.
            pub const fn is_finite(self) -> bool {
                let magnitude = self.0 & 0x7F;
                $is_finite(magnitude)
            }
        }

        /// As of floats: the two zeros are equal, and a NaN equals nothing.
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl From<$type> for f32 {
            fn from(value: $type) -> Self {
                value.to_f32()
            }
        }

        impl From<$type> for f64 {
            fn from(value: $type) -> Self {
                value.to_f64()
            }
        }
    };
}

macro_rules! test {
    (|$bits:ident| $test:expr) => {{
        const fn test($bits: u8) -> bool {
            $test
        }
        test
    }};
}

fp8! {
    e4m3, Fp8Format { mantissa: 3, bias: 7, largest: 0x7E, nan: 0x7F },
    is_nan: test!(|bits| bits == 0x7F), is_finite: test!(|bits| bits != 0x7F),
    /// 8-bit float with 4 bits of exponent and 3 of mantissa, `e4m3fn` elsewhere: finite up to 448, one NaN of
    /// either sign, no infinities.
}

fp8! {
    e5m2, Fp8Format { mantissa: 2, bias: 15, largest: 0x7B, nan: 0x7F },
    is_nan: test!(|bits| bits > 0x7C), is_finite: test!(|bits| bits < 0x7C),
    /// 8-bit float with 5 bits of exponent and 2 of mantissa: finite up to 57344, with infinities and NaNs.
}
