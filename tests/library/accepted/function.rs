#![deny(warnings, missing_docs)]
//! A function without a body is a kernel; its operand types give the dtypes.

use bsr::{Bsr, Dense, Dtype, Kernel, bf16, bsr_kernel};

/// Sparse times dense.
#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = bf16)]
pub fn spmm(a: Bsr<bf16>, b: Dense<bf16>) -> Dense<f32>;

#[bsr_kernel(bm = 64, bn = 64, bk = 32, stages = auto, mma = "wgmma")]
fn private(a: bsr::Bsr<bsr::f16>, b: bsr::Dense<bsr::f16>) -> bsr::Dense<bsr::f16>;

fn entry<K: Kernel<A = bf16, B = bf16, Out = f32>>() -> &'static str {
    K::ENTRY
}

#[test]
fn a_function_without_a_body_is_a_kernel() {
    assert_eq!((spmm::SPEC.bm, spmm::SPEC.out), (128, Dtype::F32));
    assert_eq!(entry::<spmm>(), spmm::plan().ptx().entry());
    assert_eq!(spmm::FINGERPRINT, spmm::plan().ptx().fingerprint());
    assert_eq!(private::PTX, private::plan().ptx().text());
}
