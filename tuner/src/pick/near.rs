//! When a tuned problem is close enough to stand for another.

use serde::{Deserialize, Serialize};

use crate::TuningProblem;

/// Shapes that want the same kernel: the logarithms of M, N and K to the base of 2, rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bucket([u32; 3]);

impl Bucket {
    /// That of a problem.
    pub fn of(problem: &TuningProblem) -> Self {
        let rounded = |extent: usize| (extent.max(1) as f64).log2().round() as u32;
        Self([problem.workload.m, problem.workload.n, problem.workload.k].map(rounded))
    }
}

/// How far apart two problems of one class and bucket are: the sum of the logarithms, to the base of 2, of the ratios of
/// their extents and densities, and of the differences in spread and reuse. 0 for equal ones.
pub(super) fn distance(x: &TuningProblem, y: &TuningProblem) -> f64 {
    let octaves = |x: f64, y: f64| (x.max(1e-9) / y.max(1e-9)).log2().abs();
    let extents = |p: &TuningProblem| [p.workload.m, p.workload.n, p.workload.k].map(|extent| extent as f64);
    let shape: f64 = extents(x).iter().zip(extents(y)).map(|(x, y)| octaves(*x, y)).sum();
    let (x, y) = (&x.features, &y.features);
    shape + octaves(x.density(), y.density()) + octaves(x.reuse, y.reuse) + (x.row_spread - y.row_spread).abs()
}
