//! The clock of the SMs: a card lowers it until its tensor cores take no more power than they may.

use super::rates::Rates;

/// Microseconds before a launch in which tensor cores rest, since L2 is emptied: what the benchmarks wait.
const REST: f64 = 120.0;

/// The clock, over that under sustained load, of a launch whose tensor cores work for `tensor` of its `us` microseconds. Power
/// is limited over longer than a launch, and grows with the third power of the clock. `card_mhz` are the clocks under load and at most.
pub(super) fn of_load(tensor: f64, us: f64, card_mhz: [f64; 2]) -> f64 {
    let load = tensor / (us + REST);
    (1.0 / load.max(1e-6)).cbrt().clamp(1.0, card_mhz[1] / card_mhz[0])
}

impl Rates {
    /// These at another clock, over that under sustained load. Device memory has its own.
    pub(super) fn at(&self, clock: f64) -> Self {
        let faster = |rate: f64| rate * clock;
        let sooner = |us: f64| us / clock;
        let latency = sooner(self.latency[0]);
        Self {
            wgmma: self.wgmma.map(faster),
            round: sooner(self.round),
            wait: self.wait.map(sooner),
            block: sooner(self.block),
            fill: sooner(self.fill),
            turn: sooner(self.turn),
            lone: sooner(self.lone),
            latency: [latency, latency + self.latency[1] - self.latency[0]],
            between: sooner(self.between),
            store: sooner(self.store),
            row_ns: sooner(self.row_ns),
            l2: faster(self.l2),
            port: faster(self.port),
            partial: faster(self.partial),
            beyond_ns: sooner(self.beyond_ns),
            clock: faster(self.clock),
            scalar: self.scalar.map(faster),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_falls_as_tensor_cores_work_longer() {
        let mhz = [1490.0, 1980.0];
        let highest = mhz[1] / mhz[0];
        let of_load = |tensor: f64, us: f64| of_load(tensor, us, mhz);
        // A launch of few columns, and one of tensor cores that always work.
        assert_eq!(of_load(1.0, 12.0), highest);
        assert_eq!(of_load(0.0, 0.0), highest);
        assert!((of_load(1e6, 1e6) - 1.0).abs() < 1e-3);
        let clocks = [30.0, 100.0, 300.0, 1000.0].map(|us| of_load(0.9 * us, us));
        assert!(clocks.is_sorted_by(|x, y| x >= y) && clocks[0] > 1.1 * clocks[3], "{clocks:?}");
    }

    #[test]
    fn all_but_memory_follows_the_clock() {
        assert_eq!(Rates::H200.at(1.0), Rates { latency: Rates::H200.at(1.0).latency, ..Rates::H200 });
        let faster = Rates::H200.at(1.25);
        assert_eq!(
            (faster.hbm, faster.start, faster.sharpness),
            (Rates::H200.hbm, Rates::H200.start, Rates::H200.sharpness)
        );
        assert_eq!(faster.port, 1.25 * Rates::H200.port);
        // Of a trip to memory the part in L2 is shorter, the rest is not.
        let beyond_l2 = |rates: &Rates| rates.latency[1] - rates.latency[0];
        assert!((beyond_l2(&faster) - beyond_l2(&Rates::H200)).abs() < 1e-9);
    }
}
