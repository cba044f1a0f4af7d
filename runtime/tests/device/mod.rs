//! The GPU of the tests.
//!
//! Without one a test says SKIPPED on stderr and passes; with `BSR_REQUIRE_GPU` set it fails instead.

use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bsr_runtime::gpu::Device;

/// The GPU, for one test at a time: no other test may wait for the whole context while a stream is in capture.
pub(crate) fn device() -> Option<(MutexGuard<'static, ()>, Device)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    static DEVICE: OnceLock<Result<Device, String>> = OnceLock::new();
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match DEVICE.get_or_init(|| Device::open(0).map_err(|error| error.to_string())) {
        Ok(device) => Some((turn, device.clone())),
        Err(error) => {
            assert!(std::env::var_os("BSR_REQUIRE_GPU").is_none(), "BSR_REQUIRE_GPU is set: {error}");
            skip(&format!("no CUDA device ({})", first_line(error)));
            None
        }
    }
}

/// Says so past the test harness, which keeps what is printed by tests that pass.
pub(crate) fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    tell(format_args!("SKIPPED: {}: {test}", first_line(why)));
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Prints past the test harness.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
