use bsr::{Bsr, Dense, bsr_kernel};

#[bsr_kernel(bm = 128, bn = 128, bk = 64)]
fn spmm(a: Bsr<e4m3>, b: Dense<f32>) -> Dense<f128>;

fn main() {
    println!("{}", spmm::SPEC);
}
