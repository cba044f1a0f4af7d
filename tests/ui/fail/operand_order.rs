use bsr::{Bsr, Dense, bsr_kernel, f16};

#[bsr_kernel(bm = 128, bn = 128, bk = 64, op = dsd)]
fn spmm(a: Dense<f16>, b: Bsr<f16>) -> Dense<f16>;

fn main() {
    println!("{}", spmm::SPEC);
}
