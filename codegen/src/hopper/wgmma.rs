//! The shape of WGMMA: `m64nNk(32 bytes)`.

use crate::Dtype;

/// Rows that one WGMMA instruction computes.
pub(crate) const WGMMA_M: u32 = 64;

/// Elements of K that one WGMMA instruction consumes: 32 bytes.
pub(crate) const fn wgmma_k(dtype: Dtype) -> u32 {
    32 / dtype.bytes()
}
