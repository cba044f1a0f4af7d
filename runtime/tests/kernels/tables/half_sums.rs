//! Sums of f16 (`acc = f16`), in every family that has them.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::assert_launchable;

use Blocks::Pattern;

#[test]
fn warp_half_sums() {
    run_table("mma_sync and wmma, sums of f16", &warp_cases());
}

#[test]
fn wgmma_half_sums() {
    run_table("wgmma, sums of f16", &wgmma_cases());
}

#[test]
fn swap_ab_half_sums() {
    run_table("swap-AB, sums of f16", &swap_ab_cases());
}

#[test]
fn fused_half_sums() {
    run_table("epilogues, sums of f16", &fused_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("sums of f16", &all().concat(), 5);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![warp_cases(), wgmma_cases(), swap_ab_cases(), fused_cases()]
}

const LAYOUTS: [&str; 4] = ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"];

/// The rows of `specs`, each in every layout.
fn in_layouts(specs: &[(&str, (usize, usize, usize))]) -> Vec<Case> {
    let case = |(spec, shape): &(&str, (usize, usize, usize)), layout: &str| {
        Case::new(&format!("{spec}, acc = f16{layout}"), *shape, Pattern("random:0.4"))
    };
    specs.iter().flat_map(|spec| LAYOUTS.map(|layout| case(spec, layout))).collect()
}

fn plain(specs: &[(&str, (usize, usize, usize))]) -> Vec<Case> {
    specs.iter().map(|(spec, shape)| Case::new(&format!("{spec}, acc = f16"), *shape, Pattern("random:0.5"))).collect()
}

/// Blocks that are gathered and padded, warps of 128 x 64, every shape and architecture of wmma.
fn warp_cases() -> Vec<Case> {
    let mut cases = in_layouts(&[
        ("bm = 64, bn = 128, bk = 64, mma = mma_sync", (411, 333, 521)),
        ("bm = 16, bn = 32, bk = 16, mma = mma_sync", (131, 70, 300)),
        ("bm = 64, bn = 128, bk = 64, mma = wmma", (411, 333, 521)),
        ("bm = 16, bn = 32, bk = 16, mma = wmma", (131, 70, 300)),
        ("bm = 64, bn = 64, bk = 64, mma = wmma, shape = m32n8k16", (200, 150, 300)),
        ("bm = 64, bn = 64, bk = 64, mma = wmma, shape = m8n32k16", (200, 150, 300)),
    ]);
    cases.extend(plain(&[
        ("bm = 256, bn = 128, bk = 48, mma = mma_sync, warps = (2, 2)", (600, 300, 500)),
        ("bm = 256, bn = 128, bk = 48, mma = wmma, warps = (2, 2)", (600, 300, 500)),
        ("bm = 128, bn = 256, bk = 64, mma = mma_sync, arch = sm_90a", (300, 600, 500)),
        ("bm = 64, bn = 64, bk = 64, mma = wmma, arch = sm_70", (200, 150, 300)),
        ("bm = 64, bn = 64, bk = 48, mma = wmma, arch = sm_75, b_layout = col", (200, 150, 300)),
    ]));
    cases
}

/// Tiles of every kind: overlapped stores and serial ones, consumers side by side, gathered blocks, clusters, packed rows,
/// divided K, rows in an order of the launch, other operations.
fn wgmma_cases() -> Vec<Case> {
    let mut cases = in_layouts(&[
        ("bm = 128, bn = 128, bk = 64", (411, 333, 521)),
        ("bm = 256, bn = 256, bk = 64", (700, 300, 500)),
        ("bm = 512, bn = 128, bk = 112, cluster = 2", (1111, 300, 1001)),
        ("bm = 64, bn = 256, bk = 32", (333, 411, 521)),
        ("bm = 64, bn = 16, bk = 16", (200, 49, 100)),
    ]);
    cases.extend(plain(&[
        ("bm = 256, bn = 256, bk = 64, consumers = 1", (700, 300, 500)),
        ("bm = 192, bn = 192, bk = 64, consumers = 3", (500, 411, 300)),
        ("bm = 64, bn = 64, bk = 64, swap = off, pack = 2", (300, 150, 500)),
        ("bm = 128, bn = 256, bk = 64, swap = off, pack = 2", (400, 300, 700)),
        ("bm = 128, bn = 128, bk = 64, split = 3", (300, 150, 1500)),
        ("bm = 64, bn = 16, bk = 64, split = auto", (300, 30, 1500)),
        ("bm = 128, bn = 128, bk = 64, permute = on", (300, 150, 500)),
        ("bm = 256, bn = 256, bk = 64, permute = on, c_layout = row", (600, 300, 500)),
        ("bm = 128, bn = 128, bk = 128, op = dds", (300, 300, 500)),
        ("bm = 112, bn = 128, bk = 512, transpose = on", (600, 130, 300)),
        ("bm = 128, bn = 128, bk = 64, pdl = early", (300, 150, 700)),
    ]));
    cases
}

fn swap_ab_cases() -> Vec<Case> {
    let mut cases =
        in_layouts(&[("bm = 32, bn = 128, bk = 32", (300, 300, 500)), ("bm = 8, bn = 64, bk = 16", (100, 150, 300))]);
    cases.extend(plain(&[
        ("bm = 96, bn = 256, bk = 80", (400, 300, 500)),
        ("bm = 32, bn = 128, bk = 32, split = 3", (100, 150, 1500)),
        ("bm = 32, bn = 64, bk = 32, permute = on", (130, 70, 200)),
        ("bm = 128, bn = 64, bk = 48, op = dds", (200, 150, 300)),
    ]));
    cases
}

/// Functions of the sums, full operands and second results, with stores that are overlapped and serial.
fn fused_cases() -> Vec<Case> {
    let functions = [
        "|bias: Rows<f32>| relu(acc + bias)",
        "|bias: Rows<f32>, res: Dense<f16>| (relu(acc + bias) + res, row_sum(acc))",
    ];
    let mut cases = vec![];
    for function in functions {
        let epilogue = format!("acc = f16, epilogue = \"{function}\"");
        for layout in ["", ", c_layout = col"] {
            for (sizes, shape) in [
                ("bm = 128, bn = 128, bk = 64", (411, 333, 521)),
                ("bm = 256, bn = 256, bk = 64", (700, 300, 500)),
                ("bm = 32, bn = 128, bk = 32", (300, 300, 500)),
            ] {
                cases.push(Case::new(&format!("{sizes}, {epilogue}{layout}"), shape, Pattern("random:0.4")));
            }
        }
    }
    cases.extend(plain(&[
        ("bm = 128, bn = 128, bk = 64, beta = on", (411, 333, 521)),
        ("bm = 32, bn = 64, bk = 32, beta = on", (200, 150, 300)),
    ]));
    cases
}
