//! Tensors of heads, by address, sizes and strides.

use bsr::Element;
use bsr_runtime::attention::{AttentionError, HeadOrder, Tensor};
use pyo3::prelude::*;

use crate::array::{Kind, Strided};

/// Address, element type, sizes and strides of `[batch, heads, rows, columns]`.
pub(crate) type TensorArgument = (usize, String, [usize; 4], [isize; 4]);

/// A tensor in memory that the caller keeps alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    address: usize,
    pub(super) kind: Kind,
    pub(super) sizes: [usize; 4],
    strides: [isize; 4],
}

impl Heads {
    /// # Errors
    /// An element type that is none.
    pub(super) fn new((address, kind, sizes, strides): TensorArgument) -> PyResult<Self> {
        Ok(Self { address, kind: Kind::parse(&kind)?, sizes, strides })
    }

    /// The rows of one head as a matrix.
    pub(super) fn head(&self, batch: usize, head: usize) -> Strided {
        let [_, _, rows, cols] = self.sizes;
        let elements = batch as isize * self.strides[0] + head as isize * self.strides[1];
        Strided {
            address: self.address.wrapping_add_signed(elements * self.kind.bytes() as isize),
            kind: self.kind,
            rows,
            cols,
            row_stride: self.strides[2],
            col_stride: self.strides[3],
        }
    }

    /// A contiguous copy on the host.
    ///
    /// # Errors
    /// None for a tensor that is as large as it says.
    ///
    /// # Safety
    /// The memory must be what the tensor says and alive.
    pub(super) unsafe fn copied<T: Element>(&self) -> Result<Tensor<T>, AttentionError> {
        let [batch, heads, rows, cols] = self.sizes;
        let mut data = Vec::with_capacity(batch * heads * rows * cols);
        for problem in 0..batch {
            for head in 0..heads {
                let matrix = self.head(problem, head);
                for row in 0..rows {
                    // SAFETY: as the caller vouches.
                    data.extend((0..cols).map(|col| T::from_f64(unsafe { matrix.get(row, col) })));
                }
            }
        }
        Tensor::from_vec(self.sizes, HeadOrder::HeadsFirst, data)
    }
}
