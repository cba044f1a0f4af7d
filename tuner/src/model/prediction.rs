//! A predicted time and its parts.

use serde::{Deserialize, Serialize};

/// A predicted time, and what it is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Microseconds of one launch from cold caches.
    pub us: f64,
    /// The parts: what each would take, or adds. They overlap and do not add up.
    pub terms: Vec<Term>,
}

/// A part of a predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Which.
    pub what: What,
    /// Microseconds over the whole launch.
    pub us: f64,
}

/// The parts of a predicted time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The tensor cores, or the CUDA cores, if all SMs had equal work and nothing else took time.
    Tensor,
    /// The exponentials of an attention, likewise.
    Exponentials,
    /// Bytes from L2 to shared memory, likewise.
    L2,
    /// Bytes from device memory, each once.
    Hbm,
    /// Barrier rounds.
    Barriers,
    /// What a ring buffer too shallow for L2's latency adds.
    Latency,
    /// Beginnings and ends of tiles, and stores that nothing hides.
    Stores,
    /// What the busiest SM does beyond the average: the last wave, the longest row.
    Imbalance,
    /// The launch.
    Launch,
}

impl What {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Exponentials => "exponentials",
            Self::L2 => "L2",
            Self::Hbm => "HBM",
            Self::Barriers => "barriers",
            Self::Latency => "latency",
            Self::Stores => "stores",
            Self::Imbalance => "imbalance",
            Self::Launch => "launch",
        }
    }
}

impl Prediction {
    /// The part that takes the longest: what limits the kernel.
    pub fn limit(&self) -> What {
        let longest = self.terms.iter().max_by(|x, y| x.us.total_cmp(&y.us));
        longest.map_or(What::Launch, |term| term.what)
    }

    /// One of the parts.
    pub fn term(&self, what: What) -> f64 {
        self.terms.iter().find(|term| term.what == what).map_or(0.0, |term| term.us)
    }
}

/// Two things that overlap: the longer one, and more where they are about equal, since each then waits for the other at
/// times. A sharpness of 1 would add the two, infinity would take the longer.
pub(super) fn both(x: f64, y: f64, sharpness: f64) -> f64 {
    let (least, most) = if x < y { (x, y) } else { (y, x) };
    if most <= 0.0 { most } else { most * (1.0 + (least / most).powf(sharpness)).powf(1.0 / sharpness) }
}
