//! The best kernel so far, and how much slower another one is.

/// The best that is known of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Best {
    pub(super) us: f64,
    /// To the dense library in the same rounds.
    pub(super) ratio: Option<f64>,
}

impl Best {
    /// The better of the two, each by its own measure.
    pub(super) fn or(self, us: f64, ratio: Option<f64>) -> Self {
        Self { us: self.us.min(us), ratio: self.ratio.into_iter().chain(ratio).reduce(f64::max) }
    }

    /// How many times slower than the best something is. Beside the dense library in the same rounds, where both have
    /// that: times of another process, at another clock or on a GPU that something else still uses, are no measure.
    pub(super) fn times_slower(&self, us: f64, ratio: Option<f64>) -> f64 {
        match (self.ratio, ratio) {
            (Some(best), Some(ratio)) => best / ratio,
            _ => us / self.us,
        }
    }
}
