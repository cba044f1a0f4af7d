//! The products that a backend computes.

use bsr::FirstUse;
use burn::tensor::Tensor;
use burn::tensor::TensorPrimitive;
use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;

use crate::{Pattern, dense};

/// Which product with a block-sparse matrix is asked for, and how its kernel is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Whether the matrix is transposed.
    pub transpose: bool,
    /// What happens for a product that nothing is known of. Only GPUs measure.
    pub first_use: FirstUse,
}

impl Call {
    /// The same with the matrix transposed once more.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { transpose: !self.transpose, ..self }
    }
}

/// A backend with products of block-sparse matrices. What it does not compute in a way of its own is computed with dense
/// matrices, in which zeros stand where no block is stored.
///
/// The operands fit: [`crate::BsrGemm`] and [`crate::BlockSparseLinear`] check them.
pub trait BsrBackend: Backend {
    /// `x W^T`, or `x W` where the call says so, of `x` with 2 dimensions and the values of the stored blocks of `W`.
    fn bsr_linear(x: FloatTensor<Self>, values: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        primitive(dense::linear::<Self>(tensor(x), tensor(values), pattern, call.transpose))
    }

    /// The stored blocks of `y^T x`: blocks x rows x columns.
    fn bsr_sampled(y: FloatTensor<Self>, x: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        let _ = call;
        primitive(dense::sampled::<Self>(tensor(y), tensor(x), pattern))
    }
}

#[cfg(feature = "ndarray")]
mod ndarray {
    use burn::backend::NdArray;
    use burn::backend::ndarray::{FloatNdArrayElement, IntNdArrayElement, NdArrayTensor, QuantElement, SharedArray};

    impl<E: FloatNdArrayElement, I: IntNdArrayElement, Q: QuantElement> super::BsrBackend for NdArray<E, I, Q>
    where
        NdArrayTensor: From<SharedArray<E>>,
        NdArrayTensor: From<SharedArray<I>>,
    {
    }
}

pub(crate) fn tensor<B: Backend, const D: usize>(primitive: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}

pub(crate) fn primitive<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}
