//! Ctrl-C: what is half written is removed, and the command ends with 130. A sweep first ends its call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::exit::Exit;
use super::say;

/// Set by the first Ctrl-C, where somebody asks.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Takes Ctrl-C over, once.
pub(super) fn take_over() {
    let handler = || {
        if STOP.get().is_some_and(|stop| !stop.swap(true, Ordering::SeqCst)) {
            return say("\nending after the current call; Ctrl-C again ends at once");
        }
        bsr::write::remove_partial_files();
        std::process::exit(Exit::Interrupted as i32);
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        say(format_args!("Ctrl-C will end the command at once, and may leave partial files: {error}"));
    }
}

/// A flag that the first Ctrl-C sets, and does nothing else; the second one ends the process.
pub(super) fn stop_flag() -> Arc<AtomicBool> {
    Arc::clone(STOP.get_or_init(Arc::default))
}
