//! The device half of the runtime on a real GPU.
//!
//! Without one every test says SKIPPED on stderr and passes; with `BSR_REQUIRE_GPU` set it fails instead.
#![allow(clippy::unwrap_used)]

mod agreement;
mod dense_library;
#[path = "../device/mod.rs"]
mod device;
mod launches;
mod many_blocks;
mod matrices;
#[cfg(feature = "cusparse")]
mod sparse_library;

use std::ffi::c_void;

use bsr_runtime::gpu::{DeviceBuffer, Function, GpuError, LaunchDims, StreamRef, launch_params};
use device::{device, skip, tell};

/// Three launch parameters, 128 threads a block, any cluster.
const RANKS: &str = include_str!("../ptx/ranks.ptx");

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
