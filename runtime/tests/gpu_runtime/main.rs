//! The device half of the runtime on a real GPU.
//!
//! Without one every test says SKIPPED on stderr and passes; with `BSR_REQUIRE_GPU` set it fails instead.
#![allow(clippy::unwrap_used)]

mod agreement;
mod dense_library;
mod launches;
mod matrices;
#[cfg(feature = "cusparse")]
mod sparse_library;

use std::ffi::c_void;
use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bsr_runtime::gpu::{Device, DeviceBuffer, Function, GpuError, LaunchDims, StreamRef, launch_params};

/// Three launch parameters, 128 threads a block, any cluster.
const RANKS: &str = include_str!("../ptx/ranks.ptx");

/// The GPU, for one test at a time: no other test may wait for the whole context while a stream is in capture.
fn device() -> Option<(MutexGuard<'static, ()>, Device)> {
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
fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    tell(format_args!("SKIPPED: {}: {test}", first_line(why)));
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Prints past the test harness.
fn tell(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn address<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

/// Enqueues `ranks` over the whole of `out`.
fn launch_ranks(
    function: &Function,
    out: &DeviceBuffer<u32>,
    scale: u32,
    cluster: u32,
    stream: StreamRef<'_>,
) -> Result<(), GpuError> {
    let (ptr, count) = (out.ptr(), out.len() as u32);
    let grid = count.div_ceil(128).next_multiple_of(cluster);
    let dims = LaunchDims { grid: [grid, 1], block: 128, cluster, shared_bytes: 0, is_dependent: false };
    // SAFETY: the kernel takes a pointer, a length and a factor; every test waits before it drops `out`.
    unsafe {
        let mut params = [address(&ptr), address(&count), address(&scale)];
        launch_params(function, dims, &mut params, stream)
    }
}

/// What `ranks` writes.
fn ranks(len: usize, scale: u32, cluster: u32) -> Vec<u32> {
    let value = |i: u32| i * scale + 1000 * cluster + 100 * (i / 128 % cluster);
    (0..len as u32).map(value).collect()
}
