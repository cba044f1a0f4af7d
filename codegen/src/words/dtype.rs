//! Elements, and how a matrix of them lies in memory.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::vocabulary::Vocabulary;

/// The type of one matrix element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE 754 binary16: 2 bytes, 11 bits of precision.
    F16,
    /// bfloat16: 2 bytes, 8 bits of precision, the range of `f32`.
    BF16,
    /// IEEE 754 binary32: 4 bytes, 24 bits of precision.
    F32,
    /// IEEE 754 binary64: 8 bytes, 53 bits of precision.
    F64,
    /// OCP FP8 with 4 bits of exponent and 3 of mantissa: finite up to 448, a NaN, no infinities (`e4m3fn` elsewhere).
    E4M3,
    /// OCP FP8 with 5 bits of exponent and 2 of mantissa: finite up to 57344, NaN and infinities.
    E5M2,
    /// 8-bit signed integer.
    I8,
    /// 32-bit signed integer.
    I32,
}

vocabulary! {
    Dtype {
        F16 = "f16",
        BF16 = "bf16",
        F32 = "f32",
        F64 = "f64",
        E4M3 = "e4m3",
        E5M2 = "e5m2",
        I8 = "i8",
        I32 = "i32",
    }
    reserved {}
}

impl Dtype {
    /// Size of one element in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::E4M3 | Self::E5M2 | Self::I8 => 1,
            Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }

    /// True for the two 8-bit floating-point formats.
    pub const fn is_fp8(self) -> bool {
        matches!(self, Self::E4M3 | Self::E5M2)
    }

    /// True for integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I8 | Self::I32)
    }

    /// True for types that kernels multiply.
    pub(crate) fn is_factor(self) -> bool {
        self != Self::I32
    }

    /// True for types that kernels write.
    pub(crate) fn is_result(self) -> bool {
        !matches!(self, Self::I8 | Self::E5M2)
    }

    /// True for types that products are summed in.
    pub(crate) fn is_accumulator(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::I32)
    }

    /// The type in which products of this type are summed.
    pub const fn accumulator(self) -> Self {
        match self {
            Self::I8 | Self::I32 => Self::I32,
            Self::F64 => Self::F64,
            Self::F16 | Self::BF16 | Self::F32 | Self::E4M3 | Self::E5M2 => Self::F32,
        }
    }

    /// 32-bit registers of `count` accumulators of this type: two sums of `f16` share one.
    pub(crate) const fn registers(self, count: u32) -> u32 {
        count * self.bytes() / 4
    }

    /// The type in which products of this type and `other` are summed: that of the two which is more precise.
    pub(crate) const fn accumulator_with(self, other: Self) -> Self {
        if matches!(other, Self::F64) { Self::F64 } else { self.accumulator() }
    }

    /// The type of a product with a matrix of type `other` on the right, where nothing is said: a dense factor that is more
    /// precise than the stored values has a result of its own type.
    pub(crate) const fn default_out_with(self, other: Self) -> Self {
        match (self, other) {
            (Self::F16 | Self::BF16 | Self::F32, Self::F64) | (Self::F16 | Self::BF16, Self::F32) => other,
            _ => self.default_out(),
        }
    }

    /// The type of a product of two matrices of this type, where nothing is said.
    pub const fn default_out(self) -> Self {
        match self {
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 => self,
            Self::E4M3 | Self::E5M2 => Self::BF16,
            Self::I8 | Self::I32 => Self::I32,
        }
    }

    /// The default layout of the dense operand: the tensor cores read 8-bit operands along K only.
    pub const fn default_b_layout(self) -> Layout {
        if self.bytes() == 1 { Layout::ColMajor } else { Layout::RowMajor }
    }
}

/// The layout of a dense matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Elements of one row are adjacent (`row`).
    #[serde(rename = "row")]
    RowMajor,
    /// Elements of one column are adjacent (`col`).
    #[serde(rename = "col")]
    ColMajor,
}

vocabulary! {
    Layout { RowMajor = "row" | "row_major", ColMajor = "col" | "col_major" }
    reserved {}
}

impl Layout {
    /// The layout of the same memory read as the transposed matrix.
    #[must_use]
    pub const fn flipped(self) -> Self {
        match self {
            Self::RowMajor => Self::ColMajor,
            Self::ColMajor => Self::RowMajor,
        }
    }
}
