//! From the dtypes of a spec to Rust types.

use bsr_codegen::{Dtype, KernelSpec, Op};
use bsr_runtime::gpu::Plain;
use bsr_runtime::{Element, e4m3, e5m2};
use half::{bf16, f16};

use crate::case::Failure;

/// An element of a matrix that may lie in device memory.
pub(crate) trait Number: Element + Plain {}

impl<T: Element + Plain> Number for T {}

/// Work that needs the element types of the sparse factor, of the dense one, and of C: A, B and C of `dsd`.
pub(crate) trait Typed {
    type Output;

    fn run<A: Number, B: Number, C: Number>(self) -> Result<Self::Output, Failure>;
}

/// Does the work with the element types of `spec`.
pub(crate) fn with_types<W: Typed>(spec: &KernelSpec, work: W) -> Result<W::Output, Failure> {
    let (sparse, dense) = if spec.op == Op::Dds { (spec.b, spec.a) } else { (spec.a, spec.b) };
    macro_rules! choose {
        ($($a:ident $at:ty, $b:ident $bt:ty => $($c:ident $ct:ty),+;)+) => {
            match (sparse, dense, spec.out) {
                $($((Dtype::$a, Dtype::$b, Dtype::$c) => work.run::<$at, $bt, $ct>(),)+)+
                (a, b, c) => Err(format!("no kernel multiplies {a} x {b} to {c}").into()),
            }
        };
    }
    choose! {
        F16 f16, F16 f16 => F16 f16, BF16 bf16, F32 f32;
        BF16 bf16, BF16 bf16 => F16 f16, BF16 bf16, F32 f32;
        F32 f32, F32 f32 => F16 f16, BF16 bf16, F32 f32;
        E4M3 e4m3, E4M3 e4m3 => F16 f16, BF16 bf16, F32 f32, E4M3 e4m3;
        E4M3 e4m3, E5M2 e5m2 => F16 f16, BF16 bf16, F32 f32, E4M3 e4m3;
        E5M2 e5m2, E4M3 e4m3 => F16 f16, BF16 bf16, F32 f32, E4M3 e4m3;
        E5M2 e5m2, E5M2 e5m2 => F16 f16, BF16 bf16, F32 f32, E4M3 e4m3;
        I8 i8, I8 i8 => I32 i32, F16 f16, BF16 bf16, F32 f32, E4M3 e4m3;
    }
}
