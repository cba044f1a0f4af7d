//! Where CTAs pass on partial sums.

use std::sync::{Mutex, PoisonError};

use crate::error::KernelError;
use crate::gpu::{Device, DeviceBuffer, DevicePtr, Relaxed, StreamRef};

/// The workspaces of one pattern: one for each stream, since launches on several streams may run at the same time. Each
/// is zero between two launches.
#[derive(Debug)]
pub(crate) struct Workspaces {
    bytes: usize,
    /// By stream. The first one has no stream until a stream without a workspace asks for one, so that it can be made
    /// ahead of a capture.
    made: Mutex<Vec<(Option<usize>, DeviceBuffer<u8>)>>,
}

impl Workspaces {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Self, KernelError> {
        let spare = if bytes == 0 { vec![] } else { vec![(None, DeviceBuffer::zeroed(device, bytes)?)] };
        Ok(Self { bytes, made: Mutex::new(spare) })
    }

    /// Bytes of each.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Frees those that no stream has used.
    pub(crate) fn free(&self) {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).retain(|(owner, _)| owner.is_some());
    }

    /// The workspace of a stream, made now or before; none where the work needs none.
    pub(crate) fn of(&self, device: &Device, stream: StreamRef<'_>) -> Result<DevicePtr, KernelError> {
        if self.bytes == 0 {
            return Ok(0);
        }
        let key = Some(stream.raw().addr());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, buffer)) = made.iter().find(|(owner, _)| *owner == key) {
            return Ok(buffer.ptr());
        }
        if let Some((owner, buffer)) = made.iter_mut().find(|(owner, _)| owner.is_none()) {
            *owner = key;
            return Ok(buffer.ptr());
        }
        // A graph is often captured on a stream that has seen no launch yet.
        let _relaxed = Relaxed::new();
        let buffer = DeviceBuffer::zeroed(device, self.bytes)?;
        let at = buffer.ptr();
        made.push((key, buffer));
        Ok(at)
    }
}
