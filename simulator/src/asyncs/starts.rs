//! Where a tensor copy may begin, and what a reduction may combine: the hardware refuses others as illegal instructions.
//!
//! Established on an H200 (AGREEMENT.md), by copies of every start from -9 to 17 elements, with elements of 1 to 8 bytes, of tiles and in
//! im2col mode; the ISA does not say so.

use crate::machine::tensor_map::TensorMapDesc;
use crate::program::op::Way;

/// What the innermost coordinate is a multiple of, in bytes.
const ALIGNMENT: i64 = 16;

impl TensorMapDesc {
    /// Why a copy that begins at these coordinates is refused. The offsets of im2col mode, which are behind them, do not matter.
    pub(super) fn refused_start(&self, way: Way, coords: &[i64]) -> Option<String> {
        let (rank, size) = (self.dims.len(), i64::from(self.element.bytes()));
        let bytes = coords[0] * size;
        if bytes % ALIGNMENT != 0 {
            return Some(format!(
                "the copy begins at innermost coordinate {}, which is byte {bytes} of a line of the tensor: elsewhere than at multiples of \
                 {ALIGNMENT} bytes the GPU raises an illegal instruction; move the coordinate to a multiple of {}, or give the tensor map \
                 another base address",
                coords[0],
                ALIGNMENT / size
            ));
        }
        if !matches!(way, Way::ToGlobal | Way::Reduce(_)) {
            return None;
        }
        if let Some(corner) = self.im2col.as_ref().and_then(|mode| mode.lower.iter().find(|c| **c != 0)) {
            return Some(format!(
                "a copy to global memory in im2col mode, whose tensor map has a lower corner of {corner}: with others than 0 the GPU raises \
                 an illegal instruction; store by a tensor map without padding"
            ));
        }
        let negative = coords[..rank].iter().position(|c| *c < 0)?;
        Some(format!(
            "coordinate {negative} of a copy to global memory is {}: what is in front of the tensor is not left out, as behind its end, but \
             the GPU raises an illegal instruction; begin at 0 or later",
            coords[negative]
        ))
    }
}
