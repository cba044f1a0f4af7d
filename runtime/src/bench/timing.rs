//! What a list of times says: median, percentiles, and how sure the median is.

use serde::{Deserialize, Serialize};

/// The times of one candidate, in microseconds of GPU time, one a round, in the order they were taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The candidate's name.
    pub name: String,
    /// One time a round.
    pub samples_us: Vec<f64>,
}

/// A summary of times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeUs {
    /// The middle one.
    pub median: f64,
    /// One in ten was shorter.
    pub p10: f64,
    /// One in ten was longer.
    pub p90: f64,
    /// The shortest.
    pub min: f64,
    /// How many there were.
    pub samples: usize,
}

impl Timing {
    /// The summary; zeros if there are no samples.
    pub fn summary(&self) -> TimeUs {
        let sorted = sorted(&self.samples_us);
        TimeUs {
            median: quantile(&sorted, 0.5),
            p10: quantile(&sorted, 0.1),
            p90: quantile(&sorted, 0.9),
            min: sorted.first().copied().unwrap_or(0.0),
            samples: sorted.len(),
        }
    }

    /// The median in microseconds; 0 if there are no samples.
    pub fn median_us(&self) -> f64 {
        quantile(&sorted(&self.samples_us), 0.5)
    }

    /// TFLOP/s of `flops` operations in the median time.
    pub fn tflops(&self, flops: u64) -> f64 {
        tflops(flops, self.median_us())
    }

    /// Half the width of the 95 % confidence interval of the median, relative to the median; `None` with
    /// fewer than 6 samples, from which no such interval can be had.
    pub fn relative_ci(&self) -> Option<f64> {
        relative_ci(&self.samples_us)
    }

    /// The median over rounds of this candidate's time divided by `other`'s time in the same round. What
    /// drifts slower than a round (clocks, temperature) cancels. `None` without common rounds.
    pub fn paired_ratio(&self, other: &Self) -> Option<f64> {
        let ratios: Vec<_> = self.samples_us.iter().zip(&other.samples_us).map(|(a, b)| a / b).collect();
        (!ratios.is_empty()).then(|| quantile(&sorted(&ratios), 0.5))
    }
}

/// TFLOP/s of `flops` operations in `us` microseconds; 0 for no time.
pub fn tflops(flops: u64, us: f64) -> f64 {
    if us > 0.0 { flops as f64 / us / 1e6 } else { 0.0 }
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Linear interpolation between the two nearest ranks.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let rank = q * last as f64;
    let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    low + (high - low) * rank.fract()
}

/// The interval between the order statistics that hold the true median with 95 % probability, whatever the
/// distribution: ranks `n / 2 -+ 1.96 sqrt(n) / 2`.
pub(super) fn relative_ci(samples: &[f64]) -> Option<f64> {
    let n = samples.len();
    if n < 6 {
        return None;
    }
    let sorted = sorted(samples);
    let reach = 1.96 * (n as f64).sqrt() / 2.0;
    let low = (n as f64 / 2.0 - reach).floor().max(1.0) as usize - 1;
    let high = ((n as f64 / 2.0 + reach).ceil() as usize).min(n - 1);
    let median = quantile(&sorted, 0.5);
    (median > 0.0).then(|| (sorted[high] - sorted[low]) / 2.0 / median)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn timing(samples: &[f64]) -> Timing {
        Timing { name: "x".into(), samples_us: samples.to_vec() }
    }

    #[test]
    fn the_summary_is_that_of_the_sorted_samples() {
        let summary = timing(&[5.0, 1.0, 4.0, 2.0, 3.0, 100.0]).summary();
        assert_eq!(summary.median, 3.5);
        assert_eq!(summary.min, 1.0);
        assert_eq!(summary.p10, 1.5);
        assert_eq!(summary.p90, 52.5);
        assert_eq!(summary.samples, 6);
        assert_eq!(timing(&[]).summary().median, 0.0);
        assert_eq!(timing(&[7.0]).summary().p90, 7.0);
    }

    #[test]
    fn the_interval_narrows_with_samples_and_ignores_outliers() {
        assert_eq!(timing(&[1.0; 5]).relative_ci(), None);
        assert_eq!(timing(&[1.0; 6]).relative_ci(), Some(0.0));
        let spread = |n: usize| -> Vec<f64> { (0..n).map(|i| 100.0 + (i * 37 % n) as f64 / n as f64).collect() };
        let few = timing(&spread(20)).relative_ci().unwrap();
        let many = timing(&spread(2000)).relative_ci().unwrap();
        assert!(many < few / 5.0, "{few} {many}");
        let mut with_outlier = vec![100.0; 40];
        with_outlier[7] = 9000.0;
        assert_eq!(timing(&with_outlier).relative_ci(), Some(0.0));
    }

    #[test]
    fn the_interval_holds_the_true_median_95_times_in_100() {
        // A skewed distribution whose median is 1: 2^u with u uniform on [-1, 1].
        let mut state = 1_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            2_f64.powf((state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)
        };
        let n = 50;
        let held = (0..2000)
            .filter(|_| {
                let sorted = sorted(&(0..n).map(|_| draw()).collect::<Vec<_>>());
                let reach = 1.96 * f64::from(n).sqrt() / 2.0;
                let low = sorted[(25.0 - reach).floor() as usize - 1];
                let high = sorted[(25.0 + reach).ceil() as usize];
                low <= 1.0 && 1.0 <= high
            })
            .count();
        assert!((1880..=1995).contains(&held), "{held} of 2000");
    }

    #[test]
    fn the_paired_ratio_cancels_drift() {
        let drift: Vec<f64> = (0..40).map(|i| 1.0 + f64::from(i) * 0.02).collect();
        let ours = timing(&drift.iter().map(|d| 90.0 * d).collect::<Vec<_>>());
        let theirs = timing(&drift.iter().map(|d| 100.0 * d).collect::<Vec<_>>());
        assert!((ours.paired_ratio(&theirs).unwrap() - 0.9).abs() < 1e-12);
        assert_eq!(timing(&[]).paired_ratio(&theirs), None);
    }

    #[test]
    fn a_million_operations_a_microsecond_is_a_teraflop() {
        assert_eq!(tflops(1_000_000, 1.0), 1.0);
        assert_eq!(timing(&[2.0]).tflops(2_000_000_000), 1000.0);
        assert_eq!(tflops(1, 0.0), 0.0);
    }
}
