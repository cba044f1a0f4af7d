//! A kernel that waits forever would hang the test without a word: the watchdog says which one it was.

use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::tell;

/// How long a case may take, far more than any does (compute-sanitizer slows kernels a hundredfold).
const PATIENCE: Duration = Duration::from_secs(150);

static WATCHED: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// Watches until it is dropped.
pub(crate) struct Watch;

/// Ends the process, with the name of the case, if this is not dropped in time: the GPU cannot be interrupted in
/// any other way.
pub(crate) fn watch(what: String) -> Watch {
    static START: Once = Once::new();
    START.call_once(|| {
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((since, what)) = &*watched
                    && since.elapsed() > PATIENCE
                {
                    tell(format_args!("HANGS for {PATIENCE:?}: {what}"));
                    std::process::exit(101);
                }
            }
        });
    });
    set(Some((Instant::now(), what)));
    Watch
}

impl Drop for Watch {
    fn drop(&mut self) {
        set(None);
    }
}

fn set(watched: Option<(Instant, String)>) {
    *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) = watched;
}
