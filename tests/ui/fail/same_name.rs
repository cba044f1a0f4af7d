use bsr::prelude::*;

#[bsr_kernel(bm = 128, bn = 128, bk = 64)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 128, bk = 64)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

fn main() {
    println!("{}", spmm::SPEC);
}
