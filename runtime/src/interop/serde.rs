//! Host matrices in any format of serde. Values are their bytes, little-endian: NaNs and the last bit come back.

use bsr_codegen::{Dtype, Layout};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

use crate::{Bsr, Dense, Element, Structure};

#[derive(Serialize, Deserialize)]
#[serde(rename = "Structure")]
struct StructureParts<P, L> {
    rows: usize,
    cols: usize,
    block: (usize, usize),
    row_ptr: P,
    col_idx: L,
}

impl Serialize for Structure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (rows, cols, block) = (self.rows(), self.cols(), self.block());
        StructureParts { rows, cols, block, row_ptr: self.row_ptr(), col_idx: self.col_idx() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Structure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = StructureParts::<Vec<i64>, Vec<i32>>::deserialize(deserializer)?;
        let StructureParts { rows, cols, block, row_ptr, col_idx } = parts;
        Self::new(rows, cols, block, row_ptr, col_idx).map_err(de::Error::custom)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "Bsr")]
struct BsrParts<S> {
    structure: S,
    dtype: Dtype,
    values: Bytes,
}

impl<T: Element> Serialize for Bsr<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = Bytes(T::to_bytes(self.values()));
        BsrParts { structure: self.structure(), dtype: T::DTYPE, values }.serialize(serializer)
    }
}

impl<'de, T: Element> Deserialize<'de> for Bsr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let BsrParts { structure, dtype, values } = BsrParts::<Structure>::deserialize(deserializer)?;
        Self::from_structure(structure, values.elements(dtype)?).map_err(de::Error::custom)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "Dense")]
struct DenseParts {
    rows: usize,
    cols: usize,
    layout: Layout,
    ld: usize,
    dtype: Dtype,
    data: Bytes,
}

impl<T: Element> Serialize for Dense<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (rows, cols, layout, ld) = (self.rows(), self.cols(), self.layout(), self.ld());
        let data = Bytes(T::to_bytes(self.data()));
        DenseParts { rows, cols, layout, ld, dtype: T::DTYPE, data }.serialize(serializer)
    }
}

impl<'de, T: Element> Deserialize<'de> for Dense<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let DenseParts { rows, cols, layout, ld, dtype, data } = DenseParts::deserialize(deserializer)?;
        Self::from_vec(rows, cols, layout, ld, data.elements(dtype)?).map_err(de::Error::custom)
    }
}

/// Bytes as bytes where the format has them, else as a list of numbers.
struct Bytes(Vec<u8>);

impl Bytes {
    fn elements<T: Element, E: de::Error>(self, dtype: Dtype) -> Result<Vec<T>, E> {
        if dtype != T::DTYPE {
            return Err(E::custom(format_args!("the values are {dtype}, not {}", T::DTYPE)));
        }
        if !self.0.len().is_multiple_of(size_of::<T>()) {
            let (bytes, size) = (self.0.len(), size_of::<T>());
            return Err(E::custom(format_args!("{bytes} bytes are no whole number of values of {size}")));
        }
        Ok(T::from_bytes(&self.0))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }

            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Bytes, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = sequence.next_element()? {
                    bytes.push(byte);
                }
                Ok(Bytes(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Any)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use half::{bf16, f16};

    use super::*;
    use crate::{Pattern, e4m3};

    #[test]
    fn matrices_come_back_bit_by_bit() {
        let a = Bsr::<f16>::generate(Pattern::Random(0.5), 40, 50, (16, 8), 3).unwrap();
        let text = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<Bsr<f16>>(&text).unwrap(), a);
        let b = Dense::from_fn(3, 5, Layout::ColMajor, |row, _| if row == 1 { bf16::NAN } else { bf16::from_f32(0.1) });
        let back: Dense<bf16> = serde_json::from_str(&serde_json::to_string(&b).unwrap()).unwrap();
        assert_eq!(bf16::to_bytes(back.data()), bf16::to_bytes(b.data()));
        assert_eq!((back.rows(), back.cols(), back.layout(), back.ld()), (3, 5, Layout::ColMajor, b.ld()));
    }

    #[test]
    fn what_is_read_is_checked() {
        let a = Bsr::<f16>::generate(Pattern::TopK(1), 32, 32, (16, 16), 0).unwrap();
        let text = serde_json::to_string(&a).unwrap();
        let error = serde_json::from_str::<Bsr<e4m3>>(&text).unwrap_err().to_string();
        assert!(error.contains("the values are f16, not e4m3"), "{error}");
        let broken = text.replace("\"row_ptr\":[0,1,2]", "\"row_ptr\":[0,2,1]");
        assert_ne!(broken, text);
        assert!(serde_json::from_str::<Bsr<f16>>(&broken).is_err());
        let dense = serde_json::to_string(&Dense::<f32>::zeros(2, 2, Layout::RowMajor)).unwrap();
        assert!(serde_json::from_str::<Dense<f32>>(&dense.replace("\"rows\":2", "\"rows\":9")).is_err());
    }
}
