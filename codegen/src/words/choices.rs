//! Choices of a kernel.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::vocabulary::Vocabulary;

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

/// Which warps load the operands of a kernel whose warps multiply, and by which instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Every warp loads a share of a stage and multiplies its part of the tile (`warps`).
    #[default]
    Warps,
    /// Warps that do nothing else load by `cp.async`, and mbarriers tell the others what is there (`producer`).
    Producer,
    /// One thread loads by TMA, and mbarriers tell the other warps what is there (`tma`).
    Tma,
}

vocabulary! {
    Load { Warps = "warps", Producer = "producer", Tma = "tma" }
    reserved {}
}

impl Load {
    /// True where some warps only load, and the others only multiply.
    pub(crate) const fn has_roles(self) -> bool {
        !matches!(self, Self::Warps)
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

/// The integers of a pattern's arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexWidth {
    /// 32 bits, signed (`i32`).
    #[default]
    I32,
    /// 64 bits, signed (`i64`).
    I64,
}

vocabulary! {
    IndexWidth { I32 = "i32", I64 = "i64" }
    reserved {}
}

impl IndexWidth {
    /// Bytes of one.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::I32 => 4,
            Self::I64 => 8,
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
