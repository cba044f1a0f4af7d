//! cuSPARSE's block formats as baselines: BSR and Blocked-ELL, through its generic SpMM.
//!
//! Both take square blocks alone, a sparse factor on the left, and f16 or bf16 with f32 sums. Blocked-ELL pads every block
//! row to the longest: only stored blocks count as work. The library is loaded when first used; [`Cusparse::new`] says so in
//! words where there is none.

mod descriptors;
mod ell;
mod product;

use std::sync::{Arc, OnceLock};

use cudarc::cusparse::result;
use cudarc::cusparse::sys::cusparseHandle_t;

pub use product::SparseProduct;

use super::{Device, GpuError, library};
use descriptors::named;

/// How cuSPARSE has a block-sparse matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Block compressed rows, as ours.
    Bsr,
    /// As many blocks in every block row, missing ones marked.
    BlockedEll,
}

impl Format {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Bsr, Self::BlockedEll];

    /// The library's name for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bsr => "BSR",
            Self::BlockedEll => "Blocked-ELL",
        }
    }
}

/// A handle on cuSPARSE. A clone is another handle on the same.
#[derive(Clone, Debug)]
pub struct Cusparse {
    inner: Arc<CusparseHandle>,
}

#[derive(Debug)]
struct CusparseHandle {
    raw: cusparseHandle_t,
    device: Device,
}

// SAFETY: the handle is used by one thread at a time; every use binds its device.
unsafe impl Send for CusparseHandle {}
// SAFETY: as above: `SparseProduct` is not `Sync`, and only it uses the handle.
unsafe impl Sync for CusparseHandle {}

impl Cusparse {
    /// Loads the library.
    ///
    /// # Errors
    /// [`GpuError::NoCusparse`] where there is no such library; [`GpuError::Cusparse`] if it does not start.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        if !Self::is_available() {
            return Err(GpuError::NoCusparse);
        }
        device.bind()?;
        let raw = result::create().map_err(|error| named("cusparseCreate", error.0))?;
        Ok(Self { inner: Arc::new(CusparseHandle { raw, device: device.clone() }) })
    }

    /// Whether the library can be loaded. Never panics.
    pub fn is_available() -> bool {
        static PRESENT: OnceLock<bool> = OnceLock::new();
        let on_the_path = library::on_the_path!(cudarc::cusparse::sys);
        *PRESENT.get_or_init(|| library::is_present(on_the_path, &["libcusparse.so.13", "libcusparse.so.12"]))
    }

    /// The device of the handle.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }
}

impl Drop for CusparseHandle {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: created in `Cusparse::new`, destroyed once.
            let _ = unsafe { result::destroy(self.raw) };
        }
    }
}
