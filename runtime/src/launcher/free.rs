//! Multiprocessors that launches leave to kernels of other streams.

use super::Gpu;

impl Gpu {
    /// Clusters that a launch is planned for now: those that run at the same time, less what runs on the multiprocessors that
    /// [`Device::leave_free`](crate::gpu::Device::leave_free) asks for.
    pub(super) fn clusters_used(&self) -> u32 {
        let (all, free) = (self.device.sm_count().max(1), self.device.left_free());
        used(self.clusters, all, free)
    }
}

/// Of so many clusters that run at the same time on all multiprocessors, those that run where some are left free.
fn used(clusters: u32, multiprocessors: u32, free: u32) -> u32 {
    clusters.saturating_sub((clusters * free).div_ceil(multiprocessors)).max(1)
}

#[cfg(test)]
mod tests {
    use super::used;

    #[test]
    fn multiprocessors_that_are_left_free_take_their_clusters_with_them() {
        assert_eq!(used(132, 132, 0), 132);
        assert_eq!(used(132, 132, 16), 116);
        assert_eq!(used(66, 132, 15), 58, "clusters of two CTAs");
        assert_eq!(used(264, 132, 16), 232, "two CTAs on each");
        assert_eq!(used(132, 132, 132), 1);
    }
}
