//! The vocabulary of a spec: the closed sets of words a key may take.
//!
//! Every set knows its canonical spelling of each value, the further spellings it accepts, and the words
//! it reserves for things that do not exist yet.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A closed set of words: what a key may say, and what it may say one day.
pub(crate) trait Vocabulary: Copy + 'static {
    /// Every accepted spelling; the first spelling of a value is its canonical one.
    const WORDS: &'static [(&'static str, Self)];
    /// Words that are understood and answered with 'not implemented yet'.
    const RESERVED: &'static [&'static str];
}

macro_rules! vocabulary {
    ($type:ident { $($variant:ident = $word:literal $(| $alias:literal)*),+ $(,)? } reserved { $($reserved:literal),* $(,)? }) => {
        impl $type {
            /// The canonical word of the spec grammar.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl Vocabulary for $type {
            const WORDS: &'static [(&'static str, Self)] =
                &[$(($word, Self::$variant), $(($alias, Self::$variant),)*)+];
            const RESERVED: &'static [&'static str] = &[$($reserved),*];
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

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
}

vocabulary! {
    Dtype { F16 = "f16", BF16 = "bf16", F32 = "f32" }
    reserved { "e4m3", "e5m2", "i8" }
}

impl Dtype {
    /// Size of one element in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
        }
    }
}

/// How a dense matrix lies in memory.
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

/// Which operands are sparse, in the order C, A, B: `d`ense or `s`parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Dense C = sparse A * dense B (`dsd`).
    Dsd,
}

vocabulary! {
    Op { Dsd = "dsd" }
    reserved { "dds", "sdd" }
}

/// The matrix instruction of the inner loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mma {
    /// Asynchronous warpgroup MMA of Hopper (`wgmma`).
    Wgmma,
}

vocabulary! {
    Mma { Wgmma = "wgmma" }
    reserved { "wmma", "mma_sync", "scalar" }
}

/// How output tiles are dealt to the clusters of the persistent grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// Every cluster gets about the same number of stored blocks (`balanced`).
    Balanced,
    /// Cluster `c` of `n` takes tiles `c`, `c + n`, `c + 2n`, ... (`strided`).
    Strided,
}

vocabulary! {
    Schedule { Balanced = "balanced", Strided = "strided" }
    reserved {}
}
