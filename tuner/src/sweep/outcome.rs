//! What a sweep has found out.

use std::collections::BTreeMap;

use crate::search::rank_correlation_of;
use crate::{DeviceId, Record, TuningProblem, Verdict};

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
    pub problem: TuningProblem,
    /// What on.
    pub device: DeviceId,
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
    /// Points that it ended before.
    pub unseen: usize,
    /// Points that were known from before.
    pub known: usize,
    /// Records that are new.
    pub new: usize,
    /// How it ended.
    pub ended: Ended,
}

impl Outcome {
    pub(super) fn new(problem: TuningProblem, device: DeviceId, records: Vec<Record>) -> Self {
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
        sort(&mut ranking);
        Self {
            problem,
            device,
            ties: ties(&ranking),
            ranking,
            verdicts,
            baselines,
            rejected: BTreeMap::new(),
            rank_correlation: rank_correlation_of(&predicted),
            unseen: 0,
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

/// The fastest first: by their times over that of the dense library in the same rounds, where all have it, since clocks differ
/// between rounds; otherwise by their times.
pub(super) fn sort(records: &mut [Record]) {
    let by_ratio = records.iter().all(|record| record.dense.is_some());
    let key = |record: &Record| match &record.dense {
        Some(dense) if by_ratio => -dense.ratio,
        _ => median(record),
    };
    // Of equals the simplest.
    let length = |record: &Record| record.subject.len();
    records.sort_by(|a, b| key(a).total_cmp(&key(b)).then_with(|| length(a).cmp(&length(b))));
}

/// The median of a record; infinite without.
pub(super) fn median(record: &Record) -> f64 {
    record.timing.as_ref().map_or(f64::INFINITY, |timing| timing.median_us)
}

/// Those after the first whose interval meets the interval of the first.
fn ties(ranking: &[Record]) -> Vec<String> {
    let spread = |record: &Record| record.timing.as_ref().and_then(|timing| timing.relative_ci).unwrap_or(0.0);
    let Some((best, others)) = ranking.split_first() else { return vec![] };
    let slower = |other: &Record| match (&best.dense, &other.dense) {
        (Some(best), Some(other)) => best.ratio / other.ratio,
        _ => median(other) / median(best),
    };
    let meets = |other: &&Record| slower(other) <= 1.0 + spread(other) + spread(best);
    others.iter().filter(meets).map(|other| other.subject.clone()).collect()
}
