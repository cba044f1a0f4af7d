use bsr::prelude::*;

#[bsr_kernel(bm = 128, bn = 128, bk = 64)]
fn empty(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> {}

#[bsr_kernel(bm = 128, bn = 128, bk = 64)]
fn assigned(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> {
    let mut x = acc;
    x + 1.0
}

fn main() {
    println!("{} {}", empty::SPEC, assigned::SPEC);
}
