//! The architecture and its matrix instructions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::vocabulary::Vocabulary;

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
