//! Work that is cached by what it was made for, in memory that stays where it is.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::KernelError;

/// Work by what it was made for.
#[derive(Debug)]
pub(super) struct Cache<K, T>(Mutex<HashMap<K, Arc<T>>>);

impl<K, T> Default for Cache<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T> Cache<K, T> {
    /// The work for a key, made now or before. The lock is not held while it is made, so that launches of known patterns do
    /// not wait.
    pub(super) fn of(&self, key: K, make: impl FnOnce() -> Result<T, KernelError>) -> Result<Arc<T>, KernelError> {
        let cached = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = cached().get(&key) {
            return Ok(Arc::clone(work));
        }
        let made = Arc::new(make()?);
        // Another thread may have been faster, and its launch in flight reads the work that it made.
        Ok(Arc::clone(cached().entry(key).or_insert(made)))
    }

    /// Frees all of it, of which no launch may be under way.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
