//! `mma_sync` and `wmma` on transposed blocks, a sparse right factor, lists of problems and divided K: the plans, the refusals,
//! and what ptxas makes of them.

use crate::golden::{golden_plans, golden_refusals};
use crate::planning::{joined, plan, try_plan};
use crate::ptxas;
use bsr_codegen::Plan;

const SIZES: [&str; 12] = [
    "bm = 128, bn = 256, bk = 128, mma = mma_sync",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, arch = sm_90a",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = tma",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, load = producer",
    "bm = 112, bn = 128, bk = 512, mma = mma_sync, b_layout = col, c_layout = col",
    "bm = 32, bn = 256, bk = 32, mma = mma_sync, dtype = bf16, out = f32",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = e4m3",
    "bm = 128, bn = 256, bk = 128, mma = mma_sync, dtype = i8",
    "bm = 128, bn = 128, bk = 128, mma = mma_sync, dtype = f64, arch = sm_90a",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f32, tf32 = on",
    "bm = 128, bn = 128, bk = 128, mma = wmma",
    "bm = 128, bn = 128, bk = 112, mma = wmma, arch = sm_75",
];

const PRODUCTS: [&str; 9] = [
    "transpose = on",
    "op = dds",
    "op = dds, transpose = on",
    "batch = on",
    "batch = on, transpose = on",
    "split = auto",
    "split = 3, batch = on",
    "split = 2, transpose = on",
    "beta = on, split = 2",
];

const REFUSED: [&str; 17] = [
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3, transpose = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, transpose = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f32, tf32 = on, transpose = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = i8, op = dds",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = i8, op = dds, transpose = on, a_layout = col",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, a_layout = col",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, op = dds, b_layout = col",
    "bm = 24, bn = 64, bk = 40, mma = mma_sync, transpose = on",
    "bm = 48, bn = 64, bk = 64, mma = mma_sync, transpose = on, k_step = 96",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, batch = on, beta = on",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3, batch = on, scale = tensor",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3, op = dds, transpose = on, scale = row_col",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, batch = on, split = long",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, op = sss",
    "bm = 64, bn = 64, bk = 64, mma = wmma, op = dss",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, permute = on, cluster = 2, swap = on, pack = 2, pdl = on, consumers = 2, swizzle = 64",
    "bm = 64, bn = 64, bk = 64, mma = wmma, dtype = e4m3, scale = tensor, accumulate = fast",
];

/// Every product of every size that has it.
fn all() -> Vec<Plan> {
    let planned = |sizes: &str| PRODUCTS.map(|product| try_plan(&joined(&[sizes, product])).ok());
    SIZES.into_iter().flat_map(planned).flatten().collect()
}

#[test]
fn plans_accepted() {
    let plans = all();
    let specs: Vec<String> = plans.iter().map(|plan| plan.spec().to_string()).collect();
    assert!(specs.len() > 80, "{} of {} are planned", specs.len(), SIZES.len() * PRODUCTS.len());
    golden_plans("warp_products_plans", specs.iter().map(String::as_str), |_| String::new());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "warp_products_refused", &REFUSED);
}

#[test]
fn kernels_assemble_without_spills() {
    ptxas::assemble_all(&all(), "warp_products");
}

/// The tables of two plans in full.
#[test]
fn plan_table() {
    for (name, text) in [
        ("warp_products_transposed", "bm = 128, bn = 128, bk = 64, mma = mma_sync, transpose = on, split = 2"),
        ("warp_products_batch", "bm = 128, bn = 128, bk = 64, mma = mma_sync, op = dds, load = tma, batch = on"),
    ] {
        crate::golden::golden(name, &plan(text).to_string());
    }
}
