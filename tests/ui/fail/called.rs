use bsr::prelude::*;

#[bsr_kernel(bm = 128, bn = 128, bk = 64)]
fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;

fn main() {
    let a = Bsr::generate(Pattern::TopK(1), 128, 128, (128, 64), 0).unwrap();
    let b = Dense::normal(128, 128, Layout::RowMajor, 0);
    let c = spmm(&a, &b);
    println!("{:?}", c.get(0, 0));
}
