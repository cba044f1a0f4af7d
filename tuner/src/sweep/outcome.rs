//! What a sweep has found out.

use std::collections::BTreeMap;

use crate::{Device, Problem, Record, Verdict};

/// How a sweep of one workload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every point has come to its end.
    Complete,
    /// The limit of points is reached.
    Limit,
    /// The time is used up.
    Budget,
    /// The stop flag was set.
    Stopped,
}

impl Ended {
    /// The word that is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Limit => "limit",
            Self::Budget => "budget",
            Self::Stopped => "stopped",
        }
    }
}

/// What a sweep has found out of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What was multiplied.
    pub problem: Problem,
    /// What on.
    pub device: Device,
    /// Timed kernels, the fastest first.
    pub ranking: Vec<Record>,
    /// Subjects of kernels that the fastest cannot be told from: the intervals of the medians meet.
    pub ties: Vec<String>,
    /// Kernels by what became of them.
    pub verdicts: BTreeMap<Verdict, usize>,
    /// Other libraries' kernels.
    pub baselines: Vec<Record>,
    /// Points that are no kernels, by reason.
    pub rejected: BTreeMap<String, usize>,
    /// Spearman's rank correlation of predicted and measured times.
    pub rank_correlation: Option<f64>,
    /// Points that were known from before.
    pub known: usize,
    /// Records that are new.
    pub new: usize,
    /// How it ended.
    pub ended: Ended,
}

impl Outcome {
    pub(super) fn new(problem: Problem, device: Device, records: Vec<Record>) -> Self {
        let mut verdicts = BTreeMap::new();
        for record in records.iter().filter(|record| !record.baseline) {
            *verdicts.entry(record.verdict).or_default() += 1;
        }
        let predicted: Vec<(f64, f64)> = records
            .iter()
            .filter_map(|record| Some((record.predicted_us?, record.timing.as_ref()?.median_us)))
            .collect();
        let (baselines, kernels): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.baseline);
        let mut ranking: Vec<Record> = kernels.into_iter().filter(|kernel| kernel.verdict == Verdict::Timed).collect();
        ranking.sort_by(|a, b| median(a).total_cmp(&median(b)));
        Self {
            problem,
            device,
            ties: ties(&ranking),
            ranking,
            verdicts,
            baselines,
            rejected: BTreeMap::new(),
            rank_correlation: rank_correlation(&predicted),
            known: 0,
            new: 0,
            ended: Ended::Complete,
        }
    }

    /// The fastest kernel.
    pub fn best(&self) -> Option<&Record> {
        self.ranking.first()
    }

    /// The rate of the fastest kernel over that of the dense library.
    pub fn ratio(&self) -> Option<f64> {
        self.best()?.dense.as_ref().map(|dense| dense.ratio)
    }
}

/// The median of a record; infinite without.
pub(super) fn median(record: &Record) -> f64 {
    record.timing.as_ref().map_or(f64::INFINITY, |timing| timing.median_us)
}

/// Those after the first whose interval meets the interval of the first.
fn ties(ranking: &[Record]) -> Vec<String> {
    let half = |record: &Record| {
        record.timing.as_ref().map_or(0.0, |timing| timing.median_us * timing.relative_ci.unwrap_or(0.0))
    };
    let Some((best, others)) = ranking.split_first() else { return vec![] };
    let meets = |other: &&Record| median(other) - half(other) <= median(best) + half(best);
    others.iter().filter(meets).map(|other| other.subject.clone()).collect()
}

/// Spearman's rank correlation of pairs; none of fewer than three, or where all of one side are equal. Equal values share
/// the mean of their ranks.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let (one, other): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (one, other) = (ranks(&one), ranks(&other));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let scale = (sum(&one, &one) * sum(&other, &other)).sqrt();
    (scale > 0.0).then(|| sum(&one, &other) / scale)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut places: Vec<usize> = (0..values.len()).collect();
    places.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in places.chunk_by(|a, b| values[*a] == values[*b]) {
        let shared = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|place| ranks[*place] = shared);
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::rank_correlation;

    #[test]
    fn ranks_agree_or_not() {
        let pairs = |other: [f64; 4]| -> Vec<(f64, f64)> { [1.0, 5.0, 7.0, 100.0].into_iter().zip(other).collect() };
        assert_eq!(rank_correlation(&pairs([2.0, 3.0, 4.0, 5.0])), Some(1.0));
        assert_eq!(rank_correlation(&pairs([9.0, 8.0, 7.0, 1.0])), Some(-1.0));
        // By hand: d = 1, 1, 0, 0, so 1 - 6 * 2 / (4 * 15).
        assert_eq!(rank_correlation(&pairs([3.0, 2.0, 4.0, 5.0])), Some(0.8));
        assert_eq!(rank_correlation(&pairs([3.0; 4])), None);
        assert_eq!(rank_correlation(&pairs([1.0; 4])[..2]), None);
        // Ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5).
        let tied = rank_correlation(&pairs([2.0, 2.0, 4.0, 5.0])).unwrap_or(0.0);
        assert!((tied - 4.5 / (4.5_f64 * 5.0).sqrt()).abs() < 1e-12, "{tied}");
    }
}
