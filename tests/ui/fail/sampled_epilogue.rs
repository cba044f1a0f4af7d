use bsr::{Bsr, Dense, bsr_kernel, f16};

#[bsr_kernel(bm = 128, bn = 256, bk = 64)]
fn masked(a: Dense<f16>, b: Dense<f16>, mask: Dense<f16>) -> Bsr<f16> {
    acc * mask
}

#[bsr_kernel(bm = 128, bn = 256, bk = 64)]
fn blocks(a: Bsr<f16>, b: Dense<f16>, mask: Bsr<f16>) -> Dense<f16> {
    acc * mask
}

#[bsr_kernel(bm = 128, bn = 256, bk = 64)]
fn scores(a: Dense<f16>, b: Dense<f16>) -> Bsr<f16> {
    (acc, row_max(acc))
}

#[bsr_kernel(bm = 128, bn = 256, bk = 64)]
fn wide(a: Dense<f16>, b: Dense<f16>, mask: Bsr<f32>) -> Bsr<f16> {
    acc * mask
}

#[bsr_kernel(bm = 128, bn = 256, bk = 64, batch = on)]
fn listed(a: Dense<f16>, b: Dense<f16>, alpha: f32) -> Bsr<f16> {
    alpha * acc
}

fn main() {}
