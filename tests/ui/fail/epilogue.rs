use bsr::{Bsr, Dense, bf16, bsr_kernel, f16};

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn names(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>) -> Dense<f16> {
    let scaled = acc * alpha;
    relo(scaled + bais) + a
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn types(a: Bsr<f16>, b: Dense<f16>, bias: Row<f32>, more: Cols<i32>, scale: f16, rest: Dense) -> Dense<f16> {
    acc + bias * more * scale + rest
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn arity(a: Bsr<f16>, b: Dense<f16>, alpha: f32) -> Dense<f16> {
    clamp(acc, alpha) + select(acc, alpha, 1.0) + (acc as i8)
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn shapes(a: Bsr<f16>, b: Dense<f16>, alpha: f32) -> Dense<f16> {
    if acc { row_sum(acc) + 1.0 } else { acc < alpha }
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn unused(a: Bsr<f16>, b: Dense<f16>, alpha: f32, bias: Rows<f32>) -> Dense<f16> {
    acc + bias
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn shadowed(a: Bsr<f16>, b: Dense<f16>, acc: f32) -> Dense<f16> {
    acc
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn one_result(a: Bsr<f16>, b: Dense<f16>) -> (Dense<f16>, Rows<f32>) {
    acc * 2.0
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn two_results(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> {
    (acc, row_max(acc))
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn no_body(a: Bsr<f16>, b: Dense<f16>, bias: Rows<f32>) -> Dense<f16>;

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn syntax(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> {
    acc.max(0.0)
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64)]
fn bytes(a: Bsr<bf16>, b: Dense<bf16>, res: Dense<f32>) -> Dense<bf16> {
    acc + res
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64, mma = scalar)]
fn family(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16> {
    relu(acc)
}

#[bsr_kernel(bm = 64, bn = 64, bk = 64, epilogue = "|bias: Rows<f32>| relu(acc + bais)")]
struct InAString;

fn main() {}
