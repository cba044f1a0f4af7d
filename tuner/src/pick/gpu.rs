//! The GPU that is chosen for.

use bsr_runtime::gpu::DeviceInfo;
use bsr_runtime::roofs::Sheet;

/// The GPU that is chosen for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its name: `NVIDIA H200`.
    pub name: String,
    /// Its driver: `580.159.03 (CUDA 13.0)`.
    pub driver: String,
    /// Its compute capability: (9, 0).
    pub capability: (u32, u32),
}

impl From<&Sheet> for Gpu {
    fn from(card: &Sheet) -> Self {
        Self { name: card.name.to_owned(), driver: String::new(), capability: card.capability }
    }
}

/// The GPU that is meant where there is none and none is named: that of the shipped table.
impl Default for Gpu {
    fn default() -> Self {
        Self::from(Sheet::MEASURED)
    }
}

impl From<&DeviceInfo> for Gpu {
    fn from(info: &DeviceInfo) -> Self {
        Self { name: info.name.clone(), driver: info.driver(), capability: info.compute_capability }
    }
}
