//! Tensor maps, as `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` take them.

use bsr_simulator::{Im2col, Swizzle, TensorMapDesc};
use serde::Deserialize;

use super::buffer::Placed;
use super::element::Element;

/// A tensor map, as `cuTensorMapEncodeTiled` takes it, or `cuTensorMapEncodeIm2col`: dimensions innermost first. What is left
/// out follows from the buffer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorMap {
    /// The buffer.
    pub buffer: String,
    /// Bytes from its start to the first element.
    #[serde(default)]
    pub offset: u64,
    /// The type of its elements, where it is not that of the buffer.
    #[serde(rename = "type")]
    pub element: Option<Element>,
    /// Extents in elements; of the buffer by default.
    pub dims: Option<Vec<u64>>,
    /// Bytes from one line, plane and so on to the next; dense by default.
    pub strides: Option<Vec<u64>>,
    /// The box in elements; in im2col mode channels per pixel and pixels per column.
    #[serde(rename = "box")]
    pub boxed: Vec<u32>,
    /// Element strides; 1 by default.
    pub element_strides: Option<Vec<u32>>,
    /// The corners of the pixel box in im2col mode.
    pub im2col: Option<Corners>,
    /// Bytes of the swizzle's span: 0, 32, 64 or 128.
    #[serde(default)]
    pub swizzle: u32,
    /// Elements outside are NaN and not zero.
    #[serde(default)]
    pub fill_nan: bool,
}

/// The corners of the pixel box of an im2col tensor map, innermost dimension first.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corners {
    /// The first pixel.
    pub lower: Vec<i32>,
    /// The last pixel, counted from the last one of the tensor.
    pub upper: Vec<i32>,
}

impl TensorMap {
    /// The tensor map of a buffer that is placed.
    ///
    /// # Errors
    /// No dimension, or a swizzle that is none.
    pub fn of(&self, placed: &Placed) -> Result<TensorMapDesc, String> {
        let element = self.element.unwrap_or(placed.element);
        let dims = self.dims.clone().unwrap_or_else(|| placed.shape.iter().rev().copied().collect());
        if dims.is_empty() {
            return Err("a tensor map has 1 to 5 dimensions, not 0".into());
        }
        let strides = self.strides.clone().unwrap_or_else(|| {
            // The buffer's own pitch, then whole planes.
            let dense = dims[0].saturating_mul(element.bytes() as u64);
            let mut stride = if self.dims.is_none() { placed.rows.1 } else { dense };
            let outer = dims.iter().skip(1);
            let mut all = Vec::new();
            for extent in outer {
                all.push(stride);
                stride = stride.saturating_mul(*extent);
            }
            all
        });
        let Some(swizzle) = Swizzle::from_span(self.swizzle) else {
            return Err(format!("a swizzle spans 0, 32, 64 or 128 bytes, not {}", self.swizzle));
        };
        Ok(TensorMapDesc {
            buffer: placed.id,
            offset: self.offset,
            element: element.of_map(),
            element_strides: self.element_strides.clone().unwrap_or_else(|| vec![1; dims.len()]),
            dims,
            strides,
            box_dims: self.boxed.clone(),
            im2col: self.im2col.clone().map(|Corners { lower, upper }| Im2col { lower, upper }),
            swizzle,
            fill_nan: self.fill_nan,
        })
    }
}
