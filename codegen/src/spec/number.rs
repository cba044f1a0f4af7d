//! Integers as Rust and TOML write them.

/// Why a number as written is not a `u32` of at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// A fraction, an exponent, a suffix, or no digits at all.
    NotAnInteger,
    /// Below 1 or above 2^32 - 1.
    OutOfRange,
}

/// The value of an integer literal: decimal, `0x`, `0o` or `0b`, `_` anywhere, no suffix.
pub(crate) fn positive(text: &str) -> Result<u32, NumberError> {
    let text = text.replace('_', "");
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(&text)),
    };
    let (digits, radix) = match unsigned.get(..2) {
        Some("0x") => (&unsigned[2..], 16),
        Some("0o") => (&unsigned[2..], 8),
        Some("0b") => (&unsigned[2..], 2),
        _ => (unsigned, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(NumberError::NotAnInteger);
    }
    match u32::from_str_radix(digits, radix) {
        Ok(value) if value > 0 && !negative => Ok(value),
        _ => Err(NumberError::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::NumberError::{NotAnInteger, OutOfRange};
    use super::positive;

    #[test]
    fn integers_are_read_in_every_radix() {
        for text in ["64", "+64", "6_4", "0x40", "0o100", "0b100_0000"] {
            assert_eq!(positive(text), Ok(64), "{text}");
        }
        assert_eq!(positive("4294967295"), Ok(u32::MAX));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["0", "-0", "-64", "4294967296", "0xffff_ffff_ffff_ffff_ffff"] {
            assert_eq!(positive(text), Err(OutOfRange), "{text}");
        }
        for text in ["", "-", "0x", "1.5", "1e3", "64u32", "inf", "0b2", "é"] {
            assert_eq!(positive(text), Err(NotAnInteger), "{text}");
        }
    }
}
