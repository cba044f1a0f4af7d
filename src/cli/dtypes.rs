//! From the dtypes of a spec to Rust types: the one place where they meet.

use bsr::gpu::Plain;
use bsr::{Dtype, Element, KernelSpec, bf16, f16};

use super::exit::{Exit, Failure};

/// An element of a matrix that may lie in device memory.
pub(super) trait Number: Element + Plain {}

impl<T: Element + Plain> Number for T {}

/// Work that needs the element types of a kernel: `T` of A and B, `C` of the result.
pub(super) trait Typed {
    /// What comes of it.
    type Output;

    /// Does the work.
    fn run<T: Number, C: Number>(self) -> Result<Self::Output, Failure>;
}

/// Does the work with the element types of `spec`, which has been planned.
///
/// # Errors
/// Those of the work; bad input for operands that no plan multiplies.
pub(super) fn with_types<W: Typed>(spec: &KernelSpec, work: W) -> Result<W::Output, Failure> {
    match (spec.a, spec.b, spec.out) {
        (Dtype::F16, Dtype::F16, Dtype::F16) => work.run::<f16, f16>(),
        (Dtype::F16, Dtype::F16, Dtype::BF16) => work.run::<f16, bf16>(),
        (Dtype::F16, Dtype::F16, Dtype::F32) => work.run::<f16, f32>(),
        (Dtype::BF16, Dtype::BF16, Dtype::F16) => work.run::<bf16, f16>(),
        (Dtype::BF16, Dtype::BF16, Dtype::BF16) => work.run::<bf16, bf16>(),
        (Dtype::BF16, Dtype::BF16, Dtype::F32) => work.run::<bf16, f32>(),
        (a, b, _) => Err(Failure::new(
            Exit::BadInput,
            format!(
                "A is {a} and B is {b}: this command multiplies f16 x f16 and bf16 x bf16\n  help: dtype = f16, or dtype = bf16"
            ),
        )),
    }
}
