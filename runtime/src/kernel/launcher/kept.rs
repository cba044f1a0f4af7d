//! What is kept of patterns that live on the GPU.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::gpu::DevicePattern;
use crate::kernel::KernelError;

/// Lists by the number of their pattern and the extent that it does not say, in memory that stays where it is.
#[derive(Debug)]
pub(super) struct Kept<T>(Mutex<HashMap<(u64, usize), Arc<T>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Kept<T> {
    /// Those of a pattern, made now or before.
    pub(super) fn of(
        &self,
        pattern: &DevicePattern,
        along: usize,
        make: impl FnOnce() -> Result<T, KernelError>,
    ) -> Result<Arc<T>, KernelError> {
        let key = (pattern.id(), along);
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lists) = kept().get(&key) {
            return Ok(Arc::clone(lists));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(kept().entry(key).or_insert(made)))
    }

    /// Frees all of them, of which no launch may be under way.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
