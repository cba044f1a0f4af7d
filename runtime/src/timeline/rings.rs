//! Where a kernel's records lie: on a GPU, on the simulator, and what came of the last launch there.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bsr_codegen::Plan;
use bsr_simulator::{BufferId, GlobalMemory};

use crate::gpu::{Device, DeviceBuffer, DevicePtr, GpuError};

/// The rings of a kernel on a GPU. Every launch writes them anew.
#[derive(Debug)]
pub(crate) struct Rings {
    memory: DeviceBuffer<u32>,
    /// The words of it that are the rings.
    words: Range<usize>,
}

impl Rings {
    /// Those of a probed plan; none of another one.
    ///
    /// # Errors
    /// Those of an allocation.
    pub(crate) fn new(device: &Device, plan: &Plan) -> Result<Option<Self>, GpuError> {
        let Some((probes, roles)) = plan.probes() else { return Ok(None) };
        let (bytes, alignment) = (probes.bytes(roles), probes.alignment(roles));
        let memory = DeviceBuffer::<u32>::zeroed(device, (bytes + alignment as usize) / 4)?;
        let before = (memory.ptr().next_multiple_of(alignment) - memory.ptr()) as usize / 4;
        Ok(Some(Self { memory, words: before..before + bytes / 4 }))
    }

    pub(crate) fn ptr(&self) -> DevicePtr {
        self.memory.ptr() + 4 * self.words.start as u64
    }

    /// What they hold, after everything on the device is done.
    ///
    /// # Errors
    /// The error of an earlier launch, if one failed.
    pub(crate) fn words(&self) -> Result<Vec<u32>, GpuError> {
        Ok(self.memory.to_vec()?[self.words.clone()].to_vec())
    }
}

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
