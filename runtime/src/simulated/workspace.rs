//! Launches of kernels whose CTAs pass on partial sums through a workspace.

use bsr_simulator::{BufferId, GlobalMemory, Launch, Options, Report};

use super::memory::words;
use super::{Simulated, SimulatedError};

/// A workspace of so many bytes as it is before the first launch.
pub(super) fn workspace(memory: &mut GlobalMemory, bytes: usize) -> BufferId {
    words(memory, &vec![0; bytes.div_ceil(4).max(4)])
}

impl Simulated {
    /// Launches a kernel, twice if it has a workspace: the second launch finds the workspace as the first one left it, flags
    /// at zero and sums that mean nothing, and `results` as they were.
    pub(super) fn launch_with(
        &self,
        launch: &Launch,
        memory: &mut GlobalMemory,
        workspace: Option<BufferId>,
        results: &[BufferId],
        options: &Options,
    ) -> Result<Report, SimulatedError> {
        let Some(workspace) = workspace else { return self.launch(launch, memory, options) };
        let before: Vec<Vec<u8>> = results.iter().map(|id| memory.bytes(*id).to_vec()).collect();
        let first = self.launch(launch, memory, options)?;
        if !first.is_clean() {
            return Ok(first);
        }
        memory.bytes_mut(workspace).iter_mut().filter(|byte| **byte != 0).for_each(|byte| *byte = 0xFF);
        for (id, bytes) in results.iter().zip(&before) {
            memory.bytes_mut(*id).copy_from_slice(bytes);
        }
        let mut report = self.launch(launch, memory, options)?;
        report.coverage.merge(&first.coverage);
        Ok(report)
    }
}
