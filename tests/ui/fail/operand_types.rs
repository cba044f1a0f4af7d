use bsr::{Bsr, Dense, bsr_kernel, f16};

#[bsr_kernel(bm = 128, bn = 128, bk = 64)]
fn spmm(a: &Bsr<f16>, b: Dense) -> Bsr<f16>;

fn main() {
    println!("{}", spmm::SPEC);
}
