//! In which order candidates are measured: a search proposes, the sweep measures and tells.
//!
//! Points go by their numbers in a list. A search gives each number once; what it costs is told to it as it becomes known,
//! in any order. The engine that asks needs no search to be told anything.

mod guided;
mod rank;
#[cfg(test)]
mod tests;

use bsr_codegen::KernelSpec;
use bsr_codegen::spec::Key;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};

pub use guided::Guided;
pub use rank::{rank_correlation, rank_correlation_of};

/// An order of candidates.
pub trait Search: Iterator<Item = usize> {
    /// Tells what a point took, in microseconds. A point that was not timed - wrong, or too slow to finish - is not told of.
    fn tell(&mut self, _point: usize, _us: f64) {}
}

/// Every point, in the order of the list.
#[derive(Clone, Debug)]
pub struct Exhaustive(std::ops::Range<usize>);

impl Exhaustive {
    /// So many points.
    pub fn new(points: usize) -> Self {
        Self(0..points)
    }
}

impl Iterator for Exhaustive {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.0.next()
    }
}

impl Search for Exhaustive {}

/// Every point, in an order that the seed determines.
#[derive(Clone, Debug)]
pub struct Random(std::vec::IntoIter<usize>);

impl Random {
    /// So many points.
    pub fn new(points: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..points).collect();
        order.shuffle(&mut StdRng::seed_from_u64(seed));
        Self(order.into_iter())
    }
}

impl Iterator for Random {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.0.next()
    }
}

impl Search for Random {}

/// A search by its name, as a command line takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The best predicted first.
    #[default]
    Guided,
    /// In the order of the space.
    Exhaustive,
    /// In an order that this seed determines.
    Random {
        /// Any number.
        seed: u64,
    },
}

impl Strategy {
    /// The search over candidates, given the microseconds that the model predicts of each.
    pub fn search(self, candidates: &[(KernelSpec, f64)]) -> Box<dyn Search + Send> {
        match self {
            Self::Guided => Box::new(Guided::new(candidates)),
            Self::Exhaustive => Box::new(Exhaustive::new(candidates.len())),
            Self::Random { seed } => Box::new(Random::new(candidates.len(), seed)),
        }
    }
}

/// Successive halving: all candidates are timed in a few rounds, the better part of them in more, and so on (Jamieson and
/// Talwalkar, Non-stochastic Best Arm Identification, 2016).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Halving {
    /// Rounds that every candidate is timed in.
    pub first_rounds: usize,
    /// Part of the candidates that goes on: above 0, below 1.
    pub keep: f64,
    /// Rounds of a rung over those of the one before: at least 1.
    pub factor: f64,
}

/// One step of [`Halving`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// The fastest so many of the rung before take part.
    pub candidates: usize,
    /// Rounds that each is timed in, altogether.
    pub rounds: usize,
}

impl Default for Halving {
    /// 5 rounds of all, 15 of the best third, 45 of the best ninth ..
    fn default() -> Self {
        Self { first_rounds: 5, keep: 1.0 / 3.0, factor: 3.0 }
    }
}

impl Halving {
    /// The rungs for so many candidates: rounds grow while candidates grow fewer, until one is left. None where there are
    /// no candidates; out-of-range parameters are taken at the nearest that make sense.
    pub fn rungs(&self, candidates: usize) -> Vec<Rung> {
        let keep = if self.keep.is_finite() { self.keep.clamp(0.0, 0.99) } else { 0.5 };
        let factor = if self.factor.is_finite() { self.factor.max(1.0) } else { 1.0 };
        let (mut rungs, mut left, mut rounds) = (Vec::new(), candidates, self.first_rounds.max(1) as f64);
        while left > 0 {
            rungs.push(Rung { candidates: left, rounds: rounds as usize });
            // At least one fewer, so that this ends.
            let next = ((left as f64 * keep).ceil() as usize).min(left - 1);
            left = if left > 1 { next.max(1) } else { 0 };
            rounds = (rounds * factor).min(MOST_ROUNDS);
        }
        rungs
    }
}

/// Rounds beyond which no candidate is told apart any better.
const MOST_ROUNDS: f64 = 1e6;

/// The keys that are choices: what neighbours differ in.
fn settings(spec: &KernelSpec) -> Vec<(Key, String)> {
    let is_choice = |key: &Key| !crate::problem::FACT_KEYS.contains(key);
    Key::ALL.into_iter().filter(is_choice).map(|key| (key, spec.value(key))).collect()
}
