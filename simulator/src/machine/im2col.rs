//! The im2col mode of tensor maps: what `cuTensorMapEncodeIm2col` takes beyond the tensor.

/// The im2col mode of a tensor map, of images with one to three spatial dimensions: the box of pixels at which the corner of a
/// filter may be. One copy moves [`box_dims`](crate::TensorMapDesc::box_dims)`[1]` of them, line after line and image after image (PTX ISA, tensors,
/// im2col mode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Im2col {
    /// The box's first pixel in each spatial dimension, innermost (W) first: minus the padding, of a convolution.
    pub lower: Vec<i32>,
    /// Its last pixel, counted from the last one of the tensor: the padding minus what a filter extends beyond its corner.
    pub upper: Vec<i32>,
}

impl Im2col {
    /// The rules of `cuTensorMapEncodeIm2col` that those for tiles do not have, for a tensor of these extents and steps.
    pub(super) fn check(&self, dims: &[u64], element_strides: &[u32]) -> Result<(), String> {
        let rank = dims.len();
        let Some((least, most)) = range_of_corners(rank) else {
            return Err(format!("an im2col tensor map has 3 to 5 dimensions, this one {rank}"));
        };
        let spatial = rank - 2;
        if self.lower.len() != spatial || self.upper.len() != spatial {
            return Err(format!(
                "rank {rank} has {spatial} spatial dimensions; the lower corner has {} and the upper one {}",
                self.lower.len(),
                self.upper.len()
            ));
        }
        if let Some(c) = self.lower.iter().chain(&self.upper).find(|c| !(least..=most).contains(*c)) {
            return Err(format!("a corner of rank {rank} is {least} to {most}, not {c}"));
        }
        for (d, (lower, upper)) in self.lower.iter().zip(&self.upper).enumerate() {
            let last = dims[d + 1] as i64 - 1 + i64::from(*upper);
            if last < i64::from(*lower) {
                return Err(format!("the box of spatial dimension {d} is empty: from {lower} to {last}"));
            }
        }
        if element_strides[rank - 1] != 1 {
            return Err(format!("a stride of images other than 1 is not modelled: {}", element_strides[rank - 1]));
        }
        Ok(())
    }
}

/// The range of a corner, by the rank.
fn range_of_corners(rank: usize) -> Option<(i32, i32)> {
    let bits = offset_bits(rank)?;
    Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
}

/// Bits of an im2col offset, and of a corner, by the rank.
pub(crate) fn offset_bits(rank: usize) -> Option<u32> {
    match rank {
        3 => Some(16),
        4 => Some(8),
        5 => Some(5),
        _ => None,
    }
}
