#![deny(warnings, missing_docs)]
//! A sparse second operand makes `op = dds`.

use bsr::DeviceMatrix;
use bsr::gpu::{DeviceBsr, DeviceDense};
use bsr::operation::{Dds, Operation};
use bsr::{Bsr, Dense, Kernel, Op, Switch, bsr_kernel, f16};

/// Y = X W^T with a sparse W.
#[bsr_kernel(bm = 128, bn = 128, bk = 64, transpose = on)]
pub fn forward(x: Dense<f16>, w: Bsr<f16>) -> Dense<f16>;

/// dX = dY W.
#[bsr_kernel(bm = 64, bn = 128, bk = 128, op = dds)]
pub fn backward(dy: Dense<f16>, w: Bsr<f16>) -> Dense<f16>;

fn factors<K: Kernel<Op = Dds, A = f16, B = f16>>(a: &DeviceDense<f16>, b: &DeviceBsr<f16>) -> Option<(usize, usize)> {
    fn rows<F: DeviceMatrix>(_: &F) {}
    rows::<<K::Op as Operation>::A<K::A>>(a);
    rows::<<K::Op as Operation>::B<K::B>>(b);
    None
}

#[test]
fn a_sparse_second_operand_makes_op_dds() {
    assert_eq!((forward::SPEC.op, forward::SPEC.transpose), (Op::Dds, Switch::On));
    assert_eq!(backward::SPEC.transpose, Switch::Off);
    assert_eq!(forward::PTX, forward::plan().ptx().text());
    let _: fn(&DeviceDense<f16>, &DeviceBsr<f16>) -> _ = factors::<backward>;
}
