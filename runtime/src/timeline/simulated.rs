//! Where a kernel's records are on the simulator, and what came of the last launch there.

use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::Plan;
use bsr_simulator::{BufferId, GlobalMemory};

/// The rings of a probed plan in the simulator's memory, which no earlier kernel writes.
pub(crate) fn rings(plan: &Plan, memory: &mut GlobalMemory) -> Option<BufferId> {
    let (probes, roles) = plan.probes()?;
    let id = memory.alloc(probes.bytes(roles), probes.alignment(roles));
    memory.settle(id);
    Some(id)
}

/// What the last simulated launch recorded; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(Arc<Mutex<Option<Vec<u32>>>>);

impl Records {
    /// Keeps what a launch left in its rings, if it has any.
    pub(crate) fn keep(&self, bytes: Option<&[u8]>) {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let words = bytes.map(|bytes| bytes.chunks_exact(4).map(word).collect());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = words;
    }

    pub(crate) fn last(&self) -> Option<Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
