//! Where a kernel's records are on a GPU.

use std::ops::Range;

use bsr_codegen::Plan;

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
