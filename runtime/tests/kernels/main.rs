//! Every kind of kernel on a real GPU, against the f64 reference.
//!
//! C is filled with poison (NaN, or of integers a number that no sum is) and lies between walls of it, and so does B:
//! what a kernel leaves unwritten, writes outside or reads outside shows. Cases are rows of tables; a table is one
//! test, which runs all of its rows and then reports all failures together.
//!
//! Without a GPU the tests say SKIPPED on stderr and pass; with `BSR_REQUIRE_GPU` set they fail instead. The tests
//! named `simulated` run the kernels of the same tables on the simulator, everywhere.
#![allow(clippy::unwrap_used)]

mod agreement;
mod aliasing;
mod case;
mod device_pairs;
mod device_pattern;
#[path = "../drawn/mod.rs"]
mod drawn;
mod fused;
mod launches;
mod refusals;
mod run;
mod sddmm;
mod simulate;
mod tables;
mod walled;
mod watchdog;

use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bsr_runtime::gpu::Device;

/// The GPU, for one test at a time: no other test may wait for the whole context while a stream is in capture.
fn device() -> Option<(MutexGuard<'static, ()>, Device)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    static DEVICE: OnceLock<Result<Device, String>> = OnceLock::new();
    let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match DEVICE.get_or_init(|| Device::open(0).map_err(|error| error.to_string())) {
        Ok(device) => Some((turn, device.clone())),
        Err(error) => {
            assert!(std::env::var_os("BSR_REQUIRE_GPU").is_none(), "BSR_REQUIRE_GPU is set: {error}");
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default();
            let why = error.lines().next().unwrap_or_default();
            tell(format_args!("SKIPPED: no CUDA device ({why}): {test}"));
            None
        }
    }
}

/// Prints past the test harness, which keeps what is printed by tests that pass.
fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
