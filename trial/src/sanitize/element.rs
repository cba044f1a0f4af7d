//! Types of elements: their bytes, as numbers.

use bsr_runtime::{Element as _, e4m3, e5m2};
use bsr_simulator::TensorElement;
use half::{bf16, f16};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

/// The type of an element of a buffer, or of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Element {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    Bf16,
    F32,
    F64,
    E4m3,
    E5m2,
    /// The address of a buffer.
    Address,
}

impl Element {
    /// The type of this name, as in a launch file.
    pub fn named(name: &str) -> Option<Self> {
        let word: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(word).ok()
    }

    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::E4m3 | Self::E5m2 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::Address => 8,
        }
    }

    /// Whether it has fractions.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64 | Self::E4m3 | Self::E5m2)
    }

    /// Its name in numpy, and of what numpy lacks that of the integers of the same size.
    pub fn numpy(self) -> &'static str {
        match self {
            Self::U8 | Self::E4m3 | Self::E5m2 => "u1",
            Self::I8 => "i1",
            Self::U16 | Self::Bf16 => "u2",
            Self::I16 => "i2",
            Self::U32 => "u4",
            Self::I32 => "i4",
            Self::U64 | Self::Address => "u8",
            Self::I64 => "i8",
            Self::F16 => "f2",
            Self::F32 => "f4",
            Self::F64 => "f8",
        }
    }

    /// Appends a number in this type: rounded to it, an integer to its end.
    pub fn put(self, value: f64, out: &mut Vec<u8>) {
        match self {
            Self::U8 => out.push(value as u8),
            Self::I8 => out.extend((value as i8).to_le_bytes()),
            Self::U16 => out.extend((value as u16).to_le_bytes()),
            Self::I16 => out.extend((value as i16).to_le_bytes()),
            Self::U32 => out.extend((value as u32).to_le_bytes()),
            Self::I32 => out.extend((value as i32).to_le_bytes()),
            Self::U64 | Self::Address => out.extend((value as u64).to_le_bytes()),
            Self::I64 => out.extend((value as i64).to_le_bytes()),
            Self::F16 => out.extend(f16::from_f64(value).to_le_bytes()),
            Self::Bf16 => out.extend(bf16::from_f64(value).to_le_bytes()),
            Self::F32 => out.extend((value as f32).to_le_bytes()),
            Self::F64 => out.extend(value.to_le_bytes()),
            Self::E4m3 => out.extend(e4m3::to_bytes(&[e4m3::from_f64(value)])),
            Self::E5m2 => out.extend(e5m2::to_bytes(&[e5m2::from_f64(value)])),
        }
    }

    /// The number that the bytes of an element are.
    pub(super) fn get(self, bytes: &[u8]) -> f64 {
        let number = bytes.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 | Self::Address => number as f64,
            Self::I8 => f64::from(number as i8),
            Self::I16 => f64::from(number as i16),
            Self::I32 => f64::from(number as i32),
            Self::I64 => number as i64 as f64,
            Self::F16 => f64::from(f16::from_bits(number as u16)),
            Self::Bf16 => f64::from(bf16::from_bits(number as u16)),
            Self::F32 => f64::from(f32::from_bits(number as u32)),
            Self::F64 => f64::from_bits(number),
            Self::E4m3 => e4m3::from_bytes(bytes)[0].to_f64(),
            Self::E5m2 => e5m2::from_bytes(bytes)[0].to_f64(),
        }
    }

    /// The type of a tensor map's elements.
    pub(super) fn of_map(self) -> TensorElement {
        match self {
            Self::U8 | Self::I8 | Self::E4m3 | Self::E5m2 => TensorElement::B8,
            Self::U16 | Self::I16 => TensorElement::U16,
            Self::F16 => TensorElement::F16,
            Self::Bf16 => TensorElement::Bf16,
            Self::U32 => TensorElement::B32,
            Self::I32 => TensorElement::S32,
            Self::F32 => TensorElement::F32,
            Self::U64 | Self::Address => TensorElement::B64,
            Self::I64 => TensorElement::S64,
            Self::F64 => TensorElement::F64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Element::*;

    #[test]
    fn numbers_come_back() {
        for element in [U8, I8, U16, I16, U32, I32, U64, I64, F16, Bf16, F32, F64, E4m3, E5m2] {
            for value in [0.0, 1.0, 3.0, 96.0] {
                let mut bytes = Vec::new();
                element.put(value, &mut bytes);
                assert_eq!((bytes.len(), element.get(&bytes)), (element.bytes(), value), "{element:?}");
            }
        }
        let mut bytes = Vec::new();
        I16.put(-7.0, &mut bytes);
        assert_eq!(I16.get(&bytes), -7.0);
    }
}
