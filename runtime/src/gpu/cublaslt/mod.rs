//! The dense library, cuBLASLt: the baseline that a sparse kernel is measured against.
//!
//! f16, bf16 and f32 operands with f32 accumulation, each matrix in either order; FP8 operands with f32 accumulation,
//! fast or precise, and i8 operands with i32 accumulation, A row-major and B column-major. The library is loaded when
//! first used; [`CublasLt::new`] says so in words where there is none.
//!
//! [`CublasLt::plan`] asks the library's heuristic for its best few algorithms. Which of them is the best is
//! found by timing them, which [`crate::bench::DenseBaseline`] does.

mod descriptors;
mod plan;
mod problem;

use std::sync::{Arc, OnceLock};

use cudarc::cublaslt::result;
use cudarc::cublaslt::sys::{self, cublasLtHandle_t};

pub use plan::DensePlan;
pub use problem::{DenseProblem, types_in_words};

use super::{Device, DeviceBuffer, GpuError, library};
use descriptors::named;

/// A handle on cuBLASLt with 64 MiB of workspace. A clone is another handle on the same.
#[derive(Clone, Debug)]
pub struct CublasLt {
    inner: Arc<CublasLtHandle>,
}

#[derive(Debug)]
struct CublasLtHandle {
    raw: cublasLtHandle_t,
    device: Device,
    workspace: DeviceBuffer<u8>,
    /// The number 1.0.
    one: DeviceBuffer<f32>,
}

// SAFETY: the library's documentation allows a handle to be used by several threads at a time.
unsafe impl Send for CublasLtHandle {}
// SAFETY: as above.
unsafe impl Sync for CublasLtHandle {}

impl CublasLt {
    /// Bytes of workspace that algorithms may use.
    pub const WORKSPACE_BYTES: usize = 64 << 20;

    /// Loads the library and allocates the workspace.
    ///
    /// # Errors
    /// [`GpuError::NoCublasLt`] where there is no such library; [`GpuError::OutOfMemory`].
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        if !Self::is_available() {
            return Err(GpuError::NoCublasLt);
        }
        device.bind()?;
        let workspace = DeviceBuffer::uninit(device, Self::WORKSPACE_BYTES)?;
        let one = DeviceBuffer::from_slice(device, &[1.0])?;
        let raw = result::create_handle().map_err(named("cublasLtCreate"))?;
        Ok(Self { inner: Arc::new(CublasLtHandle { raw, device: device.clone(), workspace, one }) })
    }

    /// Whether the library can be loaded. Never panics.
    pub fn is_available() -> bool {
        static PRESENT: OnceLock<bool> = OnceLock::new();
        let on_the_path = library::on_the_path!(cudarc::cublaslt::sys);
        *PRESENT.get_or_init(|| library::is_present(on_the_path, &["libcublasLt.so.13", "libcublasLt.so.12"]))
    }

    /// The library's version, for instance `13.1.0`.
    pub fn version(&self) -> String {
        // SAFETY: the library is loaded, since the handle exists; the call takes nothing.
        version_text(unsafe { sys::cublasLtGetVersion() })
    }

    /// Asks for the algorithms for a problem, best first by the library's own estimate. The first one is
    /// selected.
    ///
    /// # Errors
    /// [`GpuError::DenseProblem`] for what the library does not multiply.
    pub fn plan(&self, problem: &DenseProblem) -> Result<DensePlan, GpuError> {
        DensePlan::new(self, problem)
    }

    /// The device of the handle.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }
}

impl Drop for CublasLtHandle {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: created in `CublasLt::new`, destroyed once.
            let _ = unsafe { result::destroy_handle(self.raw) };
        }
    }
}

/// `major * 10000 + minor * 100 + patch`, as cuBLAS has counted since 11.
fn version_text(version: usize) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(version_text(130_100), "13.1.0");
        assert_eq!(version_text(120_805), "12.8.5");
    }

    #[test]
    fn the_missing_library_is_an_error_in_words() {
        assert!(GpuError::NoCublasLt.to_string().contains("LD_LIBRARY_PATH"));
        let _ = CublasLt::is_available();
    }
}
