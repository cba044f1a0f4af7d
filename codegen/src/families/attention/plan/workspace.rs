//! Step 6: the workspace for partials of a tile's keys, of a kernel whose tiles can be divided.

use super::Tiling;
use crate::Arch;

/// Bytes of a flag in the workspace, and what parts of a place are multiples of.
const FLAG: u32 = 128;

/// The workspace. A place in it takes the sums of both consumers, one after the other: {maxima and sums of a thread's two
/// rows}, their O, each four registers of all threads side by side, then the flag that says that they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// Bytes of a consumer's sums, with their flag, and of both.
    pub(crate) sums_bytes: u32,
    pub(crate) place_bytes: u32,
    pub(crate) places_bytes: u32,
}

impl Workspace {
    pub(super) fn new(tiling: &Tiling, arch: &Arch) -> Self {
        let registers = 4 + tiling.columns / 2;
        let sums_bytes = 4 * arch.warpgroup * registers;
        let place_bytes = sums_bytes + FLAG;
        Self { sums_bytes, place_bytes, places_bytes: tiling.roles.consumers * place_bytes }
    }
}
