//! Tensors of heads on the host.

use bsr_codegen::TensorStrides;

use super::{AttentionError, HeadOrder};
use crate::Element;
use crate::random::{Streams, fill_normal};

/// A contiguous tensor of `batch x heads x rows x columns` elements on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<T> {
    sizes: [usize; 4],
    order: HeadOrder,
    data: Vec<T>,
}

impl<T: Element> Tensor<T> {
    /// A tensor of `[batch, heads, rows, columns]` whose elements lie in `order`.
    ///
    /// # Errors
    /// [`AttentionError::Size`] where `data` has another number of elements.
    pub fn from_vec(sizes: [usize; 4], order: HeadOrder, data: Vec<T>) -> Result<Self, AttentionError> {
        let elements: usize = sizes.iter().product();
        if data.len() != elements {
            return Err(AttentionError::size(
                format!("{} elements are no tensor of {sizes:?}", data.len()),
                format!("problems x heads x rows x columns = {elements}"),
                "as many elements as the sizes say",
            ));
        }
        Ok(Self { sizes, order, data })
    }

    /// A tensor of one value.
    pub fn filled(sizes: [usize; 4], order: HeadOrder, value: T) -> Self {
        Self { sizes, order, data: vec![value; sizes.iter().product()] }
    }

    /// Independent draws from a normal distribution, the same for each head and row whatever the order.
    pub fn normal(sizes: [usize; 4], order: HeadOrder, seed: u64) -> Self {
        let mut tensor = Self::filled(sizes, order, T::ZERO);
        let streams = Streams::new(seed, b"tensor  ");
        let [batch, heads, rows, _] = sizes;
        for place in 0..batch * heads * rows {
            let at = [place / (heads * rows), place / rows % heads, place % rows];
            let range = tensor.range(at);
            fill_normal(&mut streams.get(place), &mut tensor.data[range]);
        }
        tensor
    }

    /// Problems, heads, rows, columns.
    pub fn sizes(&self) -> [usize; 4] {
        self.sizes
    }

    /// How it lies.
    pub fn order(&self) -> HeadOrder {
        self.order
    }

    /// The elements, as they lie.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// The elements, as they lie.
    pub fn into_data(self) -> Vec<T> {
        self.data
    }

    /// Elements between neighbours.
    pub fn strides(&self) -> TensorStrides {
        let [_, heads, rows, columns] = self.sizes;
        self.order.strides(heads, rows, columns)
    }

    /// The row at `[problem, head, row]`.
    ///
    /// # Panics
    /// Beyond the tensor's sizes.
    pub fn row(&self, at: [usize; 3]) -> &[T] {
        &self.data[self.range(at)]
    }

    /// The same to be written.
    ///
    /// # Panics
    /// As [`Tensor::row`].
    pub fn row_mut(&mut self, at: [usize; 3]) -> &mut [T] {
        let range = self.range(at);
        &mut self.data[range]
    }

    fn range(&self, [problem, head, row]: [usize; 3]) -> std::ops::Range<usize> {
        let [batch, heads, rows, columns] = self.sizes;
        assert!(problem < batch && head < heads && row < rows, "row {row} of head {head} of problem {problem}");
        let TensorStrides { row: by_row, head: by_head, batch: by_problem } = self.strides();
        let start = problem * by_problem as usize + head * by_head as usize + row * by_row as usize;
        start..start + columns
    }
}
