//! The products on Burn's CUDA backend, in the memory of its tensors.
//!
//! Tensors of f16 and bf16 are multiplied by block-sparse kernels. Tensors of other types, and matrices whose rows are not a
//! multiple of 16 bytes, which the kernels cannot read, are multiplied as dense matrices by Burn's own kernels.
//!
//! # Streams
//! Burn does not expose the streams of its kernels. The products run on their own stream, which is ordered with all others of
//! the context: by events of the context ([`Order::Events`]), if the driver supports them, or by waiting on the host before and
//! after each product ([`Order::Host`]). [`set_order`] sets the order, [`order`] returns it.

mod launch;
mod memory;
mod state;

use burn::tensor::ops::FloatTensor;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{BoolElement, CubeBackend, FloatElement, IntElement};
use cubecl::cuda::CudaRuntime;

pub use state::{Order, empty_cache, order, set_order};

use crate::backend::{primitive, tensor};
use crate::{BsrBackend, Call, Pattern, dense};
use launch::Operands;

impl<F: FloatElement, I: IntElement, BT: BoolElement> BsrBackend for CubeBackend<CudaRuntime, F, I, BT> {
    fn bsr_linear(x: FloatTensor<Self>, values: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        match launch::linear(Operands { first: &x, second: &values, pattern, call }) {
            Ok(Some(y)) => y,
            Ok(None) => primitive(dense::linear::<Self>(tensor(x), tensor(values), pattern, call.transpose)),
            Err(error) => refused("product", &x, pattern, &error),
        }
    }

    fn bsr_sddmm(y: FloatTensor<Self>, x: FloatTensor<Self>, pattern: &Pattern, call: Call) -> FloatTensor<Self> {
        match launch::sddmm(Operands { first: &y, second: &x, pattern, call }) {
            Ok(Some(values)) => values,
            Ok(None) => primitive(dense::sddmm::<Self>(tensor(y), tensor(x), pattern)),
            Err(error) => refused("gradient", &x, pattern, &error),
        }
    }
}

/// Ends as Burn's own products do where they cannot be computed.
fn refused(what: &str, x: &CubeTensor<CudaRuntime>, pattern: &Pattern, error: &launch::Error) -> ! {
    panic!(
        "the block-sparse {what} of {:?} with {pattern} cannot be computed on {:?}: {error}",
        x.meta.shape(),
        x.device
    )
}
