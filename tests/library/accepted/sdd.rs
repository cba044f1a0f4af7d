#![deny(warnings, missing_docs)]
//! Dense operands and a sparse result sample a product: `op = sdd` without being written.

use bsr::operation::{Operation, Sdd};
use bsr::{Bsr, Dense, Kernel, Op, bf16, bsr_kernel, f16};

/// The stored blocks of dense times dense.
#[bsr_kernel(bm = 128, bn = 256, bk = 128)]
pub fn sddmm(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16>;

/// The same, written, of which the blocks of the transposed result are stored.
#[bsr_kernel(op = sdd, bm = 64, bn = 256, bk = 64, a_layout = col, transpose = on)]
pub fn transposed(a: Dense<bf16>, b: Dense<bf16>) -> Bsr<f32>;

fn samples<K: Kernel<Op = Sdd>>() -> Op {
    <K::Op as Operation>::OP
}

#[test]
fn dense_operands_and_a_sparse_result_make_op_sdd() {
    assert_eq!((sddmm::SPEC.op, samples::<sddmm>()), (Op::Sdd, Op::Sdd));
    assert!(transposed::SPEC.transpose.is_on() && samples::<transposed>() == Op::Sdd);
    assert!(sddmm::ENTRY.starts_with("bsr_sdd_wgmma"));
}
