//! The products that a backend computes.

use bsr::FirstUse;
use burn::tensor::Tensor;
use burn::tensor::TensorPrimitive;
use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;

use crate::{Pattern, dense};

/// The product with a block-sparse matrix that is requested, and how its kernel is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Whether the matrix is transposed.
    pub transpose: bool,
    /// How a kernel is chosen for a product without measurements. Only GPUs measure.
    pub first_use: FirstUse,
}

impl Call {
    /// The same call with the matrix transposed.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { transpose: !self.transpose, ..self }
    }
}

/// A backend with products of block-sparse matrices. The provided methods compute them with dense matrices that have zeros in
/// place of blocks that are not stored.
///
/// [`crate::BsrGemm`] and [`crate::BlockSparseLinear`] check that the operands fit.
pub trait BsrBackend: Backend {
    /// `x W^T`, or `x W` if the call transposes, of `x` with 2 dimensions and the values of the stored blocks of `W`.
    fn bsr_linear(x: FloatTensor<Self>, values: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        primitive(dense::linear::<Self>(tensor(x), tensor(values), pattern, call.transpose))
    }

    /// The stored blocks of `y^T x`: blocks x rows x columns.
    fn bsr_sddmm(y: FloatTensor<Self>, x: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        let _ = call;
        primitive(dense::sddmm::<Self>(tensor(y), tensor(x), pattern))
    }

    /// The former name of [`BsrBackend::bsr_sddmm`].
    #[deprecated(note = "use `bsr_sddmm`")]
    fn bsr_sampled(y: FloatTensor<Self>, x: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        Self::bsr_sddmm(y, x, pattern, call)
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
