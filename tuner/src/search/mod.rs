//! In which order candidates are measured: a search proposes, the sweep measures and reports.
//!
//! Points go by their numbers in a list. A search gives each number once; its cost is reported as it becomes known,
//! in any order. An engine need not report anything.

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
    /// Reports the time of a point in microseconds. A point without a time, wrong or too slow to finish, is not reported.
    fn observe(&mut self, _point: usize, _us: f64) {}
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

/// The keys that are choices: what neighbours differ in.
fn settings(spec: &KernelSpec) -> Vec<(Key, String)> {
    Key::ALL.into_iter().filter(|key| !key.is_fact()).map(|key| (key, spec.value(key))).collect()
}
