//! Epilogues of `mma_sync` and `wmma`: the plans, the refusals, and what ptxas makes of them.

use crate::golden::{golden_plans, golden_refusals};
use crate::planning::{joined, plan};
use crate::ptxas;
use bsr_codegen::Plan;

const SIZES: [&str; 6] = [
    "bm = 128, bn = 256, bk = 128, mma = mma_sync",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma",
    "bm = 128, bn = 128, bk = 64, mma = mma_sync, out = f32, c_layout = col",
    "bm = 64, bn = 64, bk = 32, mma = mma_sync, dtype = bf16, load = producer",
    "bm = 128, bn = 256, bk = 128, mma = wmma",
    "bm = 64, bn = 64, bk = 32, mma = wmma, out = f32",
];

const FUSED: [&str; 5] = [
    "beta = on",
    "epilogue = \"|bias: Cols<f32>, alpha: f32| gelu(alpha * acc + bias)\"",
    "epilogue = \"|bias: Rows<f16>, gate: Cols<f32>| relu(acc + bias) * gate\"",
    "epilogue = \"|bias: Rows<bf16>, res: Dense<f32>| gelu_erf(acc + bias) + res\"",
    "epilogue = \"|| tanh(acc)\"",
];

const REFUSED: [&str; 8] = [
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, acc = f16, beta = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, epilogue = \"|| relu(acc)\"",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = i8, epilogue = \"|| relu(acc)\"",
    "bm = 64, bn = 64, bk = 64, mma = wmma, epilogue = \"|| (acc, row_sum(acc))\"",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, epilogue = \"|| (acc as bf16) * 2.0\"",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, epilogue = \"|a: Dense<f16>, b: Dense<f16>| acc + a * b\"",
    "bm = 64, bn = 64, bk = 32, mma = wmma, arch = sm_70, epilogue = \"|| relu(acc)\"",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, epilogue = \"|a: Bsr<f16>| acc + a\"",
];

fn all() -> Vec<Plan> {
    let oldest = plan("bm = 64, bn = 64, bk = 32, mma = wmma, arch = sm_70, out = f32, beta = on");
    SIZES.into_iter().flat_map(|sizes| FUSED.map(|fused| plan(&joined(&[sizes, fused])))).chain([oldest]).collect()
}

#[test]
fn plans_accepted() {
    let specs: Vec<String> = all().iter().map(|plan| plan.spec().to_string()).collect();
    golden_plans("epilogue_warp_plans", specs.iter().map(String::as_str), |_| String::new());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "epilogue_warp_refused", &REFUSED);
}

#[test]
fn kernels_assemble_without_spills() {
    ptxas::assemble_all(&all(), "epilogue_warp");
}
