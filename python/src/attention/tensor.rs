//! Tensors of heads, by address, sizes and strides.

use bsr::{Element, bf16, f16};
use bsr_runtime::attention::{AttentionError, HeadOrder, HostVector, Sharing, Tensor};
use pyo3::prelude::*;

use crate::array::{Kind, Strided};

/// Address, element type, sizes and strides of `[batch, heads, rows, columns]`.
pub(crate) type TensorArgument = (usize, String, [usize; 4], [isize; 4]);

/// Address, element type, sizes and strides of a vector of a score, `[problems, heads, elements]`; problems and heads are 1
/// where all have the same.
pub(crate) type VectorArgument = (usize, String, [usize; 3], [isize; 3]);

/// A vector of a score in memory that the caller keeps alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector {
    pub(super) kind: Kind,
    sizes: [usize; 3],
    heads: Heads,
}

impl Vector {
    /// # Errors
    /// An element type that is none.
    pub(super) fn new((address, kind, sizes, strides): VectorArgument) -> PyResult<Self> {
        let ([problems, heads, elements], [problem, head, element]) = (sizes, strides);
        let heads = Heads::new((address, kind, [problems, heads, elements, 1], [problem, head, element, 1]))?;
        Ok(Self { kind: heads.kind, sizes, heads })
    }

    /// The number of an element, of the one there is where all have the same.
    ///
    /// # Safety
    /// The memory must be what the vector says and alive.
    pub(super) unsafe fn get(&self, [problem, head, element]: [usize; 3]) -> f64 {
        let [problems, heads, elements] = self.sizes;
        let one = |number: usize, of: usize| number.min(of.saturating_sub(1));
        let matrix = self.heads.head(one(problem, problems), one(head, heads));
        // SAFETY: as the caller vouches; no number is beyond the sizes.
        unsafe { matrix.get(one(element, elements), 0) }
    }

    /// A copy for the simulator.
    ///
    /// # Safety
    /// As [`Vector::get`].
    pub(super) unsafe fn copied(&self) -> HostVector {
        let [problems, heads, elements] = self.sizes;
        let places = (0..problems).flat_map(|b| (0..heads).flat_map(move |h| (0..elements).map(move |e| [b, h, e])));
        // SAFETY: as the caller vouches.
        let values: Vec<f64> = places.map(|place| unsafe { self.get(place) }).collect();
        let vector = match self.kind {
            Kind::F16 => HostVector::from(values.iter().map(|value| f16::from_f64(*value)).collect::<Vec<_>>()),
            Kind::BF16 => HostVector::from(values.iter().map(|value| bf16::from_f64(*value)).collect::<Vec<_>>()),
            _ => HostVector::from(values.iter().map(|value| *value as f32).collect::<Vec<_>>()),
        };
        vector.shared(match (problems > 1, heads > 1) {
            (false, false) => Sharing::All,
            (false, true) => Sharing::ByHead,
            (true, false) => Sharing::ByProblem,
            (true, true) => Sharing::ByBoth,
        })
    }
}

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
