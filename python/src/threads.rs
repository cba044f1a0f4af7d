//! The threads of parallel work, started anew in a process that was forked: those of its parent are gone there.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::refused;

/// Bytes of stack of a thread: as much as a program's first thread has.
const STACK: usize = 8 << 20;

/// Threads, and the process that started them.
struct Started {
    process: u32,
    pool: ThreadPool,
}

/// The threads of this process or, after a fork, of its parent. What is stored here is never freed.
static STARTED: AtomicPtr<Started> = AtomicPtr::new(ptr::null_mut());

/// Runs `work` without the interpreter's lock on the threads of this process; all of rayon's parallelism in it is theirs.
///
/// Rayon's own global threads are started once for each program and do not survive a fork: whoever waits for them in the
/// child waits for ever. Work on a GPU is not for these threads, as a context of CUDA belongs to the thread that calls.
///
/// # Errors
/// Threads that the system does not start.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| Ok(pool()?.install(work)))
}

fn pool() -> PyResult<&'static ThreadPool> {
    let (process, known) = (std::process::id(), STARTED.load(Ordering::Acquire));
    // SAFETY: what is stored was a box, and is never freed.
    if let Some(known) = unsafe { known.as_ref() }
        && known.process == process
    {
        return Ok(&known.pool);
    }
    let pool = ThreadPoolBuilder::new().stack_size(STACK).build().map_err(|error| {
        refused(format!(
            "the threads of a product cannot be started: {error}\n  help: set RAYON_NUM_THREADS to the cores it may use"
        ))
    })?;
    let made = Box::into_raw(Box::new(Started { process, pool }));
    // The pool of a parent is left as it is: its threads cannot be waited for.
    match STARTED.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it was made above, and is never freed from here on.
        Ok(_) => Ok(unsafe { &(*made).pool }),
        Err(first) => {
            // SAFETY: nothing else has seen what was made above.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: another thread of this process stored it, and it is never freed.
            Ok(unsafe { &(*first).pool })
        }
    }
}
