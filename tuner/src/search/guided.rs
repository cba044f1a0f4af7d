//! The best predicted first, with what was measured correcting what is predicted.

use std::collections::HashMap;

use bsr_codegen::KernelSpec;
use bsr_codegen::spec::Key;

use super::{Search, settings};

/// Measurements before the prediction is first corrected.
const FIRST_FIT: usize = 8;
/// A correction is pulled towards none as by so many measurements without an error: few points prove little.
const PRIOR: f64 = 2.0;
/// Rounds of fitting one key after the other.
const ROUNDS: usize = 4;
/// Of so many points in a row at most [`MOST_NEIGHBOURS`] agree with each other in nearly everything.
const WINDOW: usize = 6;
/// See [`WINDOW`].
const MOST_NEIGHBOURS: usize = 2;
/// Choices in which neighbours differ at most.
const NEAR: usize = 1;
/// A point that is predicted to take so much longer than the best that is left waits for nobody's neighbour.
const FAR_BEHIND: f64 = 1.25;

/// Proposes the best predicted point that is left, unless its neighbours had several turns just now. What is measured
/// refits a factor for every value of every choice - `bn = 128` takes 1.04 times what the model says of it - and the rest is
/// ranked anew.
#[derive(Clone, Debug)]
pub struct Guided {
    settings: Vec<Vec<u32>>,
    /// Logarithms of the predictions.
    predicted: Vec<f64>,
    corrected: Vec<f64>,
    left: Vec<usize>,
    recent: Vec<usize>,
    /// Points with the logarithm of measured over predicted.
    measured: Vec<(usize, f64)>,
    values: usize,
    is_stale: bool,
}

impl Guided {
    /// Candidates with the microseconds that are predicted of each. One without a sensible prediction comes last.
    pub fn new(candidates: &[(KernelSpec, f64)]) -> Self {
        let mut numbers: HashMap<(Key, String), u32> = HashMap::new();
        let mut number = |setting: (Key, String)| {
            let next = numbers.len() as u32;
            *numbers.entry(setting).or_insert(next)
        };
        let settings: Vec<Vec<u32>> =
            candidates.iter().map(|(spec, _)| settings(spec).into_iter().map(&mut number).collect()).collect();
        let log = |us: f64| if us.is_finite() && us > 0.0 { us.ln() } else { f64::MAX };
        let predicted: Vec<f64> = candidates.iter().map(|(_, us)| log(*us)).collect();
        Self {
            settings,
            corrected: predicted.clone(),
            predicted,
            left: (0..candidates.len()).collect(),
            recent: Vec::new(),
            measured: Vec::new(),
            values: numbers.len(),
            is_stale: true,
        }
    }

    /// The microseconds that are predicted of a point after what was measured.
    pub fn corrected_us(&mut self, point: usize) -> f64 {
        self.refit();
        self.corrected.get(point).map_or(f64::INFINITY, |log| log.exp())
    }

    /// Ranks what is left anew if something was measured since.
    fn refit(&mut self) {
        if !self.is_stale {
            return;
        }
        self.is_stale = false;
        if self.measured.len() >= FIRST_FIT {
            let (level, factors) = self.fit();
            for (point, corrected) in self.corrected.iter_mut().enumerate() {
                let known: f64 = self.settings[point].iter().map(|value| factors[*value as usize]).sum();
                *corrected = self.predicted[point] + level + known;
            }
        }
        let corrected = &self.corrected;
        // The last one is the next one.
        self.left.sort_by(|x, y| corrected[*y].total_cmp(&corrected[*x]).then(y.cmp(x)));
    }

    /// A factor for all points and one for every value of a choice, as logarithms: each in turn the mean of what the others
    /// leave unexplained, shrunk.
    fn fit(&self) -> (f64, Vec<f64>) {
        let level = self.measured.iter().map(|(_, log)| log).sum::<f64>() / self.measured.len() as f64;
        let mut factors = vec![0.0; self.values];
        let choices = self.settings.first().map_or(0, Vec::len);
        for _ in 0..ROUNDS {
            for choice in 0..choices {
                let mut sums: HashMap<u32, (f64, f64)> = HashMap::new();
                for (point, log) in &self.measured {
                    let settings = &self.settings[*point];
                    let others: f64 = settings.iter().map(|value| factors[*value as usize]).sum();
                    let own = factors[settings[choice] as usize];
                    let sum = sums.entry(settings[choice]).or_default();
                    *sum = (sum.0 + log - level - others + own, sum.1 + 1.0);
                }
                for (value, (sum, count)) in sums {
                    factors[value as usize] = sum / (count + PRIOR);
                }
            }
        }
        (level, factors)
    }

    fn are_near(&self, x: usize, y: usize) -> bool {
        self.settings[x].iter().zip(&self.settings[y]).filter(|(x, y)| x != y).count() <= NEAR
    }
}

impl Iterator for Guided {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.refit();
        let best = self.corrected[*self.left.last()?];
        let has_turn = |point: &usize| {
            self.recent.iter().filter(|recent| self.are_near(**recent, *point)).count() < MOST_NEIGHBOURS
        };
        let is_good = |point: &usize| self.corrected[*point] <= best + FAR_BEHIND.ln();
        let at = (0..self.left.len())
            .rev()
            .take_while(|at| is_good(&self.left[*at]))
            .find(|at| has_turn(&self.left[*at]))
            .unwrap_or(self.left.len() - 1);
        let point = self.left.remove(at);
        self.recent.push(point);
        if self.recent.len() >= WINDOW {
            self.recent.remove(0);
        }
        Some(point)
    }
}

impl Search for Guided {
    fn observe(&mut self, point: usize, us: f64) {
        let Some(predicted) = self.predicted.get(point) else { return };
        if us.is_finite() && us > 0.0 && *predicted < f64::MAX {
            self.measured.push((point, us.ln() - predicted));
            self.is_stale = true;
        }
    }
}
