//! From the dtypes of a spec to Rust types.

use bsr_codegen::{Dtype, KernelSpec, Op};
use bsr_runtime::{Element, e4m3, e5m2};
use half::{bf16, f16};

use super::Trouble;
use super::draw::refused;

/// Work that needs the element types of a kernel: of its sparse factor, of the dense one, and of C; of SDDMM
/// those of A, B and C.
pub(super) trait Typed {
    /// What comes of it.
    type Output;

    /// Does the work.
    fn run<S: Element, D: Element, C: Element>(self) -> Self::Output;
}

/// Does the work with the element types of `spec`.
pub(super) fn with_types<W: Typed>(spec: &KernelSpec, work: W) -> Result<W::Output, Trouble> {
    let (sparse, dense) = if spec.op == Op::Dds { (spec.b, spec.a) } else { (spec.a, spec.b) };
    match (sparse, dense) {
        (Dtype::F16, Dtype::F16) => with_float::<f16, f16, W>(spec, work),
        (Dtype::BF16, Dtype::BF16) => with_float::<bf16, bf16, W>(spec, work),
        (Dtype::F32, Dtype::F32) => with_float::<f32, f32, W>(spec, work),
        (Dtype::E4M3, Dtype::E4M3) => with_float::<e4m3, e4m3, W>(spec, work),
        (Dtype::E4M3, Dtype::E5M2) => with_float::<e4m3, e5m2, W>(spec, work),
        (Dtype::E5M2, Dtype::E4M3) => with_float::<e5m2, e4m3, W>(spec, work),
        (Dtype::E5M2, Dtype::E5M2) => with_float::<e5m2, e5m2, W>(spec, work),
        (Dtype::I8, Dtype::I8) if spec.out == Dtype::I32 => Ok(work.run::<i8, i8, i32>()),
        (Dtype::I8, Dtype::I8) => with_float::<i8, i8, W>(spec, work),
        (a, b) => Err(refused(format!("no product of {a} and {b}"))),
    }
}

fn with_float<S: Element, D: Element, W: Typed>(spec: &KernelSpec, work: W) -> Result<W::Output, Trouble> {
    match spec.out {
        Dtype::F16 => Ok(work.run::<S, D, f16>()),
        Dtype::BF16 => Ok(work.run::<S, D, bf16>()),
        Dtype::F32 => Ok(work.run::<S, D, f32>()),
        Dtype::E4M3 => Ok(work.run::<S, D, e4m3>()),
        out => Err(refused(format!("no product is written as {out}"))),
    }
}
