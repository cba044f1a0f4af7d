//! Signatures and bodies that are no attention's.
use bsr::prelude::*;

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128)]
fn few(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>) -> Dense<bf16>;

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128)]
fn unscaled(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, alpha: f32) -> Dense<bf16>;

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128)]
fn sparse(q: Bsr<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16>;

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128)]
fn sum(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16> {
    acc * scale
}

#[bsr_kernel(op = attention, bm = 96, bn = 64, bk = 128)]
fn block(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16> {
    s * scale
}

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128)]
fn mixed(q: Dense<bf16>, k: Dense<f16>, v: Dense<bf16>, scale: f32) -> Dense<bf16>;

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128)]
fn full(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32, bias: Dense<f32>) -> Dense<bf16> {
    s * scale + bias
}

#[bsr_kernel(op = attention, bm = 128, bn = 64, bk = 128, d = 100)]
fn deep(q: Dense<bf16>, k: Dense<bf16>, v: Dense<bf16>, scale: f32) -> Dense<bf16>;

fn main() {}
