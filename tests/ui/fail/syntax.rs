use bsr::{Bsr, Dense, bsr_kernel, f16};

#[bsr_kernel(bm: 128, bn = 64 * 2, bk = {64}, stages = 3 consumers = 2)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

fn main() {
    println!("{}", spmm::SPEC);
}
