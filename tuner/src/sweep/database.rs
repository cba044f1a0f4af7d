//! The database, as the threads of a sweep share it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bsr_codegen::Refusal;

use crate::Record;
use crate::backend::Opened;
use crate::store::{Claimed, Owner, RunId, Store};

/// The database, as the threads of a sweep use it.
pub(super) trait Database: Sync {
    /// Keeps records, all or none.
    fn keep(&self, records: &[Record]) -> Result<(), Refusal>;

    /// Asks for a subject and its PTX, so that no other sweep measures it now. A record counts as known if it is none of
    /// `disregarded`.
    fn claim(&self, opened: &Opened, point: (&str, &str), disregarded: Option<&Record>) -> Result<Claimed, Refusal>;
}

/// The database that the threads of a sweep share.
pub(super) struct Shared<'s, 'd> {
    pub(super) store: &'s Mutex<&'d mut Store>,
    pub(super) run: Option<RunId>,
    pub(super) owner: Owner,
}

impl Database for Shared<'_, '_> {
    fn keep(&self, records: &[Record]) -> Result<(), Refusal> {
        lock(self.store).insert(records, self.run).map(|_| ())
    }

    fn claim(&self, opened: &Opened, point: (&str, &str), disregarded: Option<&Record>) -> Result<Claimed, Refusal> {
        let place = (&opened.problem.workload, &opened.device);
        lock(self.store).claim(place, point, &self.owner, disregarded)
    }
}

/// A lock whose holder has panicked is taken all the same: the panic is reported by its thread.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
