//! The operations.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::vocabulary::Vocabulary;

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
