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
    /// The name of the type.
    const NAME: &'static str;

    /// The canonical word of a value.
    fn word(self) -> &'static str;
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
            const NAME: &'static str = stringify!($type);

            fn word(self) -> &'static str {
                self.as_str()
            }
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

/// Which operands are sparse, in the order C, A, B: `d`ense or `s`parse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Dense C = sparse A * dense B (`dsd`).
    #[default]
    Dsd,
    /// Dense C = dense A * sparse B (`dds`).
    Dds,
    /// The stored blocks of a sparse C = dense A * dense B (`sdd`): SDDMM, the sampled dense-dense product.
    Sdd,
    /// Dense C = sparse A * sparse B (`dss`).
    Dss,
    /// The stored blocks of a sparse C = sparse A * sparse B (`sss`).
    Sss,
    /// O = softmax(scale * Q K^T) V on the stored blocks of Q K^T (`attention`): block-sparse attention.
    Attention,
    /// dQ of an attention (`attention_dq`): what a change of Q does to a loss that is known by dO.
    #[serde(rename = "attention_dq")]
    AttentionDq,
    /// dK and dV of an attention (`attention_dkv`).
    #[serde(rename = "attention_dkv")]
    AttentionDkv,
}

vocabulary! {
    Op {
        Dsd = "dsd",
        Dds = "dds",
        Sdd = "sdd",
        Dss = "dss",
        Sss = "sss",
        Attention = "attention",
        AttentionDq = "attention_dq",
        AttentionDkv = "attention_dkv",
    }
    reserved {}
}

impl Op {
    /// Every operation.
    pub const ALL: [Self; 8] =
        [Self::Dsd, Self::Dds, Self::Sdd, Self::Dss, Self::Sss, Self::Attention, Self::AttentionDq, Self::AttentionDkv];

    /// What it multiplies, in words.
    pub const fn operands(self) -> &'static str {
        match self {
            Self::Dsd => "A is a block-sparse matrix and B is dense",
            Self::Dds => "A is dense and B is a block-sparse matrix",
            Self::Sdd => "A and B are dense, and the result is sparse",
            Self::Dss => "A and B are block-sparse matrices, and the result is dense",
            Self::Sss => "A, B and the result are block-sparse matrices",
            Self::Attention => "Q, K and V are tensors of heads, which an `attention::Launcher` takes",
            Self::AttentionDq | Self::AttentionDkv => {
                "gradients are of tensors of heads, which an `attention::GradientLauncher` takes"
            }
        }
    }

    /// The type of the library that stands for it; gradients have that of their attention.
    #[doc(hidden)]
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Dsd => "Dsd",
            Self::Dds => "Dds",
            Self::Sdd => "Sdd",
            Self::Dss => "Dss",
            Self::Sss => "Sss",
            Self::Attention | Self::AttentionDq | Self::AttentionDkv => "Attention",
        }
    }

    /// Whether both factors are in blocks: a product of pairs of stored blocks.
    #[doc(hidden)]
    pub const fn is_of_pairs(self) -> bool {
        matches!(self, Self::Dss | Self::Sss)
    }

    /// Whether the result is stored in blocks.
    #[doc(hidden)]
    pub const fn stores_blocks(self) -> bool {
        matches!(self, Self::Sdd | Self::Sss)
    }

    /// Whether it is an attention, or a part of the gradient of one: an operation of tensors of heads, with a score.
    #[doc(hidden)]
    pub const fn is_of_heads(self) -> bool {
        matches!(self, Self::Attention) || self.is_gradient()
    }

    /// Whether it is a part of the gradient of an attention.
    #[doc(hidden)]
    pub const fn is_gradient(self) -> bool {
        matches!(self, Self::AttentionDq | Self::AttentionDkv)
    }
}

/// Yes or no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// No (`off`, `false`).
    #[default]
    Off,
    /// Yes (`on`, `true`).
    On,
}

vocabulary! {
    Switch { Off = "off" | "false", On = "on" | "true" }
    reserved {}
}

impl Switch {
    /// True for `on`.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// Programmatic dependent launch: whether a kernel may start while the one before it in the stream ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pdl {
    /// It starts when the one before it has ended (`off`, `false`).
    #[default]
    Off,
    /// It may start earlier, and waits before it reads anything (`on`, `true`).
    On,
    /// It may start earlier, and waits before it reads anything but the sparse operand, which no kernel before it in the
    /// stream may still be writing (`early`).
    Early,
}

vocabulary! {
    Pdl { Off = "off" | "false", On = "on" | "true", Early = "early" }
    reserved {}
}

impl Pdl {
    /// True where the kernel may start early.
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// The matrix instruction of the inner loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mma {
    /// Asynchronous warpgroup MMA of Hopper (`wgmma`).
    Wgmma,
    /// Warp MMA with opaque fragments, from Volta on (`wmma.mma`).
    Wmma,
    /// Warp MMA on registers that `ldmatrix` loads, from Ampere on (`mma.sync`).
    #[serde(rename = "mma_sync")]
    MmaSync,
    /// No tensor core: fused multiply-adds of the CUDA cores.
    Scalar,
}

vocabulary! {
    Mma { Wgmma = "wgmma", Wmma = "wmma", MmaSync = "mma_sync", Scalar = "scalar" }
    reserved {}
}

impl Mma {
    /// Every instruction, the fastest first.
    pub const ALL: [Self; 4] = [Self::Wgmma, Self::MmaSync, Self::Wmma, Self::Scalar];
}

/// The architecture that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// Volta (V100).
    #[serde(rename = "sm_70")]
    Sm70,
    /// Turing (T4).
    #[serde(rename = "sm_75")]
    Sm75,
    /// Ampere (A100).
    #[serde(rename = "sm_80")]
    Sm80,
    /// Ampere of workstations and games (A10, A40, RTX 3090).
    #[serde(rename = "sm_86")]
    Sm86,
    /// Ada Lovelace (L4, L40, RTX 4090).
    #[serde(rename = "sm_89")]
    Sm89,
    /// Hopper with its architecture-specific instructions (H100, H200).
    #[serde(rename = "sm_90a")]
    Sm90a,
    /// Blackwell of workstations and games (RTX PRO 6000, RTX 5090).
    #[serde(rename = "sm_120")]
    Sm120,
}

vocabulary! {
    Target {
        Sm70 = "sm_70", Sm75 = "sm_75", Sm80 = "sm_80", Sm86 = "sm_86", Sm89 = "sm_89", Sm90a = "sm_90a", Sm120 = "sm_120",
    }
    reserved {}
}

impl Target {
    /// Every target, oldest first.
    pub const ALL: [Self; 7] = [Self::Sm70, Self::Sm75, Self::Sm80, Self::Sm86, Self::Sm89, Self::Sm90a, Self::Sm120];

    /// The newest of the older ones, whose PTX a GPU `sm_<number>` runs that kernels are not written for itself: of
    /// `sm_100`, `sm_89`. PTX of `sm_90a` runs on Hopper alone.
    pub(crate) fn older(text: &str) -> Option<Self> {
        let number = |text: &str| text.to_lowercase().strip_prefix("sm_")?.trim_end_matches(['a', 'f']).parse().ok();
        let wanted: u32 = number(text)?;
        let numbers = Self::ALL.map(|target| (target, number(target.as_str())));
        if numbers.iter().any(|(_, known)| *known == Some(wanted)) {
            return None;
        }
        let older = numbers.into_iter().rev().filter(|(target, _)| *target != Self::Sm90a);
        older.into_iter().find(|(_, known)| known.is_some_and(|known| known < wanted)).map(|(target, _)| target)
    }
}

/// Where and how precisely products are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accumulate {
    /// In global memory, one CTA a stored block (`mma = scalar`).
    Atomic,
    /// In registers, one CTA an output tile (`mma = scalar`).
    Register,
    /// In the tensor core's own FP8 accumulators, of reduced precision.
    Fast,
    /// In f32 registers, to which the tensor core's FP8 sums over 128 of K are added.
    Promoted,
}

vocabulary! {
    Accumulate { Atomic = "atomic", Register = "register", Fast = "fast", Promoted = "promoted" }
    reserved {}
}

/// What the factors of an 8-bit product are scaled by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scale {
    /// Nothing.
    #[default]
    #[serde(rename = "none")]
    Unscaled,
    /// One f32 for A and one for B (`tensor`).
    #[serde(rename = "tensor")]
    Tensor,
    /// One f32 for every row of A and for every column of B (`row_col`).
    #[serde(rename = "row_col")]
    RowCol,
    /// One f32 for every stored block of A, and for every `bk` rows x 128 columns of B (`block`).
    #[serde(rename = "block")]
    Block,
}

vocabulary! {
    Scale { Unscaled = "none", Tensor = "tensor", RowCol = "row_col", Block = "block" }
    reserved {}
}

/// The shape M x N x K of a `wmma` fragment, or of one `mma.sync` of f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// 16 x 16 x 16.
    M16N16K16,
    /// 32 x 8 x 16.
    M32N8K16,
    /// 8 x 32 x 16.
    M8N32K16,
    /// 8 x 8 x 4, of f64 alone.
    M8N8K4,
    /// 16 x 8 x 4, of f64 alone.
    M16N8K4,
    /// 16 x 8 x 8, of f64 alone.
    M16N8K8,
    /// 16 x 8 x 16, of f64 alone.
    M16N8K16,
}

vocabulary! {
    Shape {
        M16N16K16 = "m16n16k16",
        M32N8K16 = "m32n8k16",
        M8N32K16 = "m8n32k16",
        M8N8K4 = "m8n8k4",
        M16N8K4 = "m16n8k4",
        M16N8K8 = "m16n8k8",
        M16N8K16 = "m16n8k16",
    }
    reserved {}
}

impl Shape {
    /// Every shape.
    pub const ALL: [Self; 7] =
        [Self::M16N16K16, Self::M32N8K16, Self::M8N32K16, Self::M8N8K4, Self::M16N8K4, Self::M16N8K8, Self::M16N8K16];

    /// Whether it is one of `mma.sync`, and not of `wmma`.
    pub(crate) const fn is_of_f64(self) -> bool {
        matches!(self, Self::M8N8K4 | Self::M16N8K4 | Self::M16N8K8 | Self::M16N8K16)
    }

    /// Rows, columns and depth of the product.
    pub const fn mnk(self) -> (u32, u32, u32) {
        match self {
            Self::M16N16K16 => (16, 16, 16),
            Self::M32N8K16 => (32, 8, 16),
            Self::M8N32K16 => (8, 32, 16),
            Self::M8N8K4 => (8, 8, 4),
            Self::M16N8K4 => (16, 8, 4),
            Self::M16N8K8 => (16, 8, 8),
            Self::M16N8K16 => (16, 8, 16),
        }
    }
}

/// How output tiles are assigned to the clusters of the persistent grid.
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

/// Whether several clusters share the K of one output tile, and how it is divided among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&str", try_from = "String")]
pub enum SplitK {
    /// One cluster computes all of a tile (`off`).
    #[default]
    Off,
    /// Tiles are divided where clusters then finish together, and earlier (`auto`).
    Auto,
    /// Tiles that are much longer than the others are divided, so that L2 still holds what they read of the dense operand (`long`).
    /// Where there are none it is `auto`. Kernels of one product with balanced tiles have it.
    Long,
    /// Every tile is divided into so many parts, as far as it has blocks (`2` to `16`).
    Parts(u32),
}

impl SplitK {
    /// The most parts of a tile.
    pub const MOST: u32 = 16;

    /// True where tiles may be divided.
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}

impl Vocabulary for SplitK {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("false", Self::Off),
        ("auto", Self::Auto),
        ("long", Self::Long),
        ("2", Self::Parts(2)),
        ("3", Self::Parts(3)),
        ("4", Self::Parts(4)),
        ("5", Self::Parts(5)),
        ("6", Self::Parts(6)),
        ("7", Self::Parts(7)),
        ("8", Self::Parts(8)),
        ("9", Self::Parts(9)),
        ("10", Self::Parts(10)),
        ("11", Self::Parts(11)),
        ("12", Self::Parts(12)),
        ("13", Self::Parts(13)),
        ("14", Self::Parts(14)),
        ("15", Self::Parts(15)),
        ("16", Self::Parts(Self::MOST)),
    ];
    const RESERVED: &'static [&'static str] = &[];
    const NAME: &'static str = "SplitK";

    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("auto", |(word, _)| word)
    }
}

impl fmt::Display for SplitK {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl From<SplitK> for &str {
    fn from(split: SplitK) -> Self {
        split.word()
    }
}

impl TryFrom<String> for SplitK {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(text, _)| *text == word);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| format!("split is off, auto, long or 2 to {}, not {word:?}", Self::MOST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_all_values_are_complete() {
        fn is_all<T: Vocabulary + PartialEq>(values: &[T]) -> bool {
            T::WORDS.iter().all(|(_, value)| values.contains(value))
        }
        assert!(is_all(&Op::ALL) && is_all(&Mma::ALL) && is_all(&Target::ALL) && is_all(&Shape::ALL));
    }
}
