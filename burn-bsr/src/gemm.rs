//! The product of a block-sparse matrix and a dense one.

use std::borrow::Borrow;

use bsr::FirstUse;
use burn::tensor::Tensor;

use crate::backend::{primitive, tensor};
use crate::{BsrBackend, BsrTensor, Call, Error};

/// How a product's kernel is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GemmConfig {
    /// How a kernel is chosen on a GPU for a product without measurements: the fastest one by the cost model, or the fastest of a
    /// few that are measured on the operands.
    pub first_use: FirstUse,
    /// Whether the block-sparse matrix is transposed.
    pub transpose: bool,
}

/// Products of a block-sparse matrix and a dense one.
#[derive(Clone, Copy, Debug)]
pub struct BsrGemm;

impl BsrGemm {
    /// `A B`, or `A^T B`, with the kernel that is chosen for these operands. `a` is the matrix or a reference to it.
    ///
    /// # Panics
    /// If the operands do not fit, as Burn's own products do; see [`BsrGemm::try_auto_tuned`]. On a GPU also if no kernel
    /// can be planned for the blocks, with the reasons.
    pub fn auto_tuned<B: BsrBackend>(
        a: impl Borrow<BsrTensor<B>>,
        b: Tensor<B, 2>,
        config: GemmConfig,
    ) -> Tensor<B, 2> {
        match Self::try_auto_tuned(a, b, config) {
            Ok(product) => product,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`BsrGemm::auto_tuned`], with an error for operands that do not fit.
    ///
    /// # Errors
    /// [`Error::Inner`].
    pub fn try_auto_tuned<B: BsrBackend>(
        a: impl Borrow<BsrTensor<B>>,
        b: Tensor<B, 2>,
        config: GemmConfig,
    ) -> Result<Tensor<B, 2>, Error> {
        let a = a.borrow();
        let ([rows, cols], [m, k]) = (b.dims(), a.pattern().shape());
        let inner = if config.transpose { m } else { k };
        if rows != inner {
            return Err(Error::Inner { rows, cols, side: "columns", inner });
        }
        let call = Call { transpose: config.transpose, first_use: config.first_use };
        // (A B)^T = B^T A^T: nothing is moved in memory.
        let values = primitive(a.values().clone());
        let product = B::bsr_linear(primitive(b.transpose()), values, a.pattern(), call);
        Ok(tensor::<B, 2>(product).transpose())
    }
}
