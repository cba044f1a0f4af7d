//! The geometry of im2col mode: which pixels a copy moves.

use super::tile::Row;
use crate::machine::im2col::{Im2col, offset_bits};
use crate::machine::tensor_map::TensorMapDesc;

impl TensorMapDesc {
    /// The pixel that row `r` of a copy holds. `coords` are the tensor's coordinates, the channel first and the image last, and
    /// behind them one offset for each spatial dimension: the filter's corner passes over the box from the coordinates on, and the
    /// offsets move from it to the pixel.
    pub(super) fn pixel(&self, mode: &Im2col, coords: &[i64], r: u32) -> Row {
        let spatial = mode.lower.len();
        // How many pixels, then lines, then planes, then images the copy is beyond its first one.
        let mut beyond = i64::from(r);
        let (mut start, mut inside) = (0, true);
        for d in 1..=spatial {
            let (lower, upper, step) = (self.lower(mode, d), self.upper(mode, d), i64::from(self.element_strides[d]));
            // The first line goes from the coordinate to the box's end, the others go through the box.
            let first = (upper - coords[d]) / step + 1;
            let corner = if beyond < first {
                coords[d] + std::mem::take(&mut beyond) * step
            } else {
                let (rest, line) = (beyond - first, (upper - lower) / step + 1);
                beyond = 1 + rest / line;
                lower + rest % line * step
            };
            let at = corner + coords[spatial + 1 + d];
            inside &= (0..self.dims[d] as i64).contains(&at);
            start += at.max(0) as u64 * self.strides[d - 1];
        }
        let image = coords[spatial + 1] + beyond;
        inside &= (0..self.dims[spatial + 1] as i64).contains(&image);
        start += image.max(0) as u64 * self.strides[spatial];
        if inside { self.inner(coords[0], start) } else { Row::OUTSIDE }
    }

    fn lower(&self, mode: &Im2col, d: usize) -> i64 {
        i64::from(mode.lower[d - 1])
    }

    fn upper(&self, mode: &Im2col, d: usize) -> i64 {
        self.dims[d] as i64 - 1 + i64::from(mode.upper[d - 1])
    }

    /// What is wrong with the coordinates of a copy: the filter's corner is in the box, and offsets have few bits.
    pub(super) fn misplaced(&self, mode: &Im2col, coords: &[i64]) -> Option<String> {
        let rank = self.dims.len();
        let most = (1i64 << offset_bits(rank)?) - 1;
        if let Some(offset) = coords[rank..].iter().find(|offset| !(0..=most).contains(*offset)) {
            return Some(format!("an im2col offset of rank {rank} is 0 to {most}, not {offset}"));
        }
        (1..rank - 1).find_map(|d| {
            let (lower, upper) = (self.lower(mode, d), self.upper(mode, d));
            let outside = !(lower..=upper).contains(&coords[d]);
            outside.then(|| format!("coordinate {d} is {}, and the pixel box goes from {lower} to {upper}", coords[d]))
        })
    }
}
