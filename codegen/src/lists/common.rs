//! What the templates of all list kernels name.

use serde::Serialize;

use super::ListKernel;

/// The threads of a kernel, and its numbers.
#[derive(Serialize)]
pub(super) struct Common {
    threads: u32,
    warps: u32,
    numbers: &'static [&'static str],
    /// Between the lanes of a warp that a scan adds.
    distances: [u32; 5],
}

impl Common {
    pub(super) fn of(kernel: ListKernel) -> Self {
        let threads = kernel.threads();
        Self { threads, warps: threads / 32, numbers: kernel.numbers(), distances: [1, 2, 4, 8, 16] }
    }
}
