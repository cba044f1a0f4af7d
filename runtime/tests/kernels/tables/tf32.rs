//! f32 factors in TF32, by `mma.sync` and by WGMMA: layouts, result types, tails and knobs.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

const FAMILY: &str = "mma = mma_sync, dtype = f32, tf32 = on";
/// WGMMA reads TF32 along K alone.
const WGMMA: &str = "dtype = f32, tf32 = on, b_layout = col";

#[test]
fn tf32_by_mma_sync() {
    run_table("TF32 by mma.sync", &cases());
}

#[test]
fn tf32_by_wgmma() {
    run_table("TF32 by WGMMA", &[type_cases(), block_cases(), shape_cases(), pattern_cases()].concat());
}

#[test]
fn tf32_by_wgmma_knobs() {
    run_table("TF32 by WGMMA, knobs", &[knob_cases(), other_cases()].concat());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("TF32 by mma.sync", &cases(), 3);
}

#[test]
fn simulated_wgmma() {
    simulate_table("TF32 by WGMMA", &all()[1..].concat(), 5);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![cases(), type_cases(), block_cases(), shape_cases(), pattern_cases(), knob_cases(), other_cases()]
}

fn by_wgmma(sizes: &str, rest: &str, shape: (usize, usize, usize)) -> Case {
    Case::new(&format!("{sizes}, {WGMMA}{rest}"), shape, Pattern("random:0.5"))
}

/// Every result type and layout of C, on tiles of one consumer and of two, with its rows and with its columns.
fn type_cases() -> Vec<Case> {
    let mut cases = vec![];
    for out in ["f32", "f16", "bf16", "e4m3"] {
        for layout in ["row", "col"] {
            for (sizes, shape) in [
                ("bm = 128, bn = 128, bk = 64", (411, 333, 521)),
                ("bm = 64, bn = 256, bk = 32", (211, 400, 301)),
                ("bm = 256, bn = 64, bk = 48", (700, 133, 301)),
            ] {
                cases.push(by_wgmma(sizes, &format!(", out = {out}, c_layout = {layout}"), shape));
            }
        }
    }
    cases
}

/// Blocks of whole and of half instructions, and of whole and of broken lines of 128 bytes.
fn block_cases() -> Vec<Case> {
    let [wide, narrow] = ["", ", c_layout = col"].map(|rest| format!(", {WGMMA}{rest}"));
    let kinds = [(128, wide.as_str()), (96, narrow.as_str())];
    block_sizes_of(&[64, 128, 192, 256, 512], &[4, 8, 12, 16, 24, 32, 36, 64, 112, 128, 256], &kinds)
}

fn shape_cases() -> Vec<Case> {
    ["bm = 128, bn = 128, bk = 64", "bm = 64, bn = 64, bk = 12", "bm = 64, bn = 256, bk = 32, c_layout = col"]
        .into_iter()
        .flat_map(|sizes| shapes_around(&format!("{sizes}, {WGMMA}")))
        .collect()
}

fn pattern_cases() -> Vec<Case> {
    let specs = [
        (format!("bm = 64, bn = 128, bk = 16, {WGMMA}"), (1000, 200)),
        (format!("bm = 128, bn = 64, bk = 64, {WGMMA}, cluster = 2"), (1000, 200)),
        (format!("bm = 32, bn = 64, bk = 32, {WGMMA}"), (500, 100)),
    ];
    let mut cases: Vec<Case> = specs.iter().flat_map(|(text, shape)| patterns_of(text, *shape)).collect();
    cases.extend(tile_counts_of(&format!("bm = 64, bn = 64, bk = 32, {WGMMA}")));
    cases
}

fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    for cluster in [1, 2, 4] {
        for sizes in ["bm = 512, bn = 128, bk = 32", "bm = 128, bn = 64, bk = 64", "bm = 64, bn = 64, bk = 20"] {
            cases.push(by_wgmma(sizes, &format!(", cluster = {cluster}"), (1200, 700, 500)));
        }
    }
    for rest in
        ["stages = 2", "stages = 3", "stages = 6", "schedule = strided", "split = auto", "split = 3", "pdl = early"]
    {
        cases.push(by_wgmma("bm = 128, bn = 64, bk = 64", &format!(", {rest}"), (500, 300, 900)));
    }
    for k_step in [8, 16, 32, 64] {
        cases.push(by_wgmma("bm = 128, bn = 128, bk = 64", &format!(", k_step = {k_step}"), (500, 300, 600)));
        cases.push(by_wgmma("bm = 64, bn = 64, bk = 8", &format!(", k_step = {k_step}"), (300, 130, 200)));
    }
    for swizzle in [32, 64] {
        cases.push(by_wgmma("bm = 128, bn = 128, bk = 32", &format!(", swizzle = {swizzle}"), (500, 300, 300)));
    }
    for consumers in [1, 2, 3] {
        cases.push(by_wgmma("bm = 192, bn = 64, bk = 32", &format!(", consumers = {consumers}"), (500, 300, 300)));
    }
    for bn in [16, 32, 64, 96, 160, 192, 256, 512] {
        cases.push(by_wgmma(&format!("bm = 64, bn = {bn}, bk = 32"), "", (300, 600, 300)));
    }
    cases
}

/// Rows that share a tile or are in an order, other kernels of WGMMA, a sparse B, what is done with the sums.
fn other_cases() -> Vec<Case> {
    let mut cases = vec![];
    for rest in ["swap = off, pack = 2", "swap = off, pack = 3, cluster = 2", "permute = on", "beta = on", "swap = on"]
    {
        cases.push(by_wgmma("bm = 64, bn = 64, bk = 32", &format!(", {rest}"), (500, 300, 300)));
    }
    let epilogue = ", epilogue = \"|bias: Rows<f32>, res: Dense<f32>| (relu(acc + bias) + res, row_sum(acc))\"";
    cases.push(by_wgmma("bm = 128, bn = 128, bk = 64", epilogue, (500, 300, 300)));
    for rest in ["", ", c_layout = col", ", out = f16", ", split = 3"] {
        for (bm, bn, bk) in [(32, 128, 32), (24, 64, 12), (8, 64, 4), (96, 128, 40), (200, 128, 72)] {
            cases.push(by_wgmma(&format!("bm = {bm}, bn = {bn}, bk = {bk}"), rest, (511, 260, 301)));
        }
    }
    for rest in ["", ", c_layout = col", ", cluster = 2", ", out = f16"] {
        for (bm, bn, bk) in [(128, 128, 64), (64, 64, 20), (32, 64, 32)] {
            let spec =
                format!("bm = {bm}, bn = {bn}, bk = {bk}, op = dds, transpose = on, dtype = f32, tf32 = on{rest}");
            if !(bm < 64 && rest.contains("cluster")) {
                cases.push(Case::new(&spec, (300, 500, 700), Pattern("random:0.5")));
            }
        }
    }
    cases
}

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |sizes: &str, rest: &str, shape| {
        cases.push(Case::new(&format!("{sizes}, {FAMILY}{rest}"), shape, Pattern("random:0.5")));
    };
    for out in ["f32", "f16", "bf16"] {
        for layouts in ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"] {
            add("bm = 64, bn = 64, bk = 48", &format!(", out = {out}{layouts}"), (211, 133, 301));
        }
    }
    for arch in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"] {
        add("bm = 64, bn = 96, bk = 48", &format!(", arch = {arch}"), (211, 133, 301));
    }
    for (warps, bn) in
        [("(1, 4)", 128), ("(2, 2)", 128), ("(2, 4)", 256), ("(4, 2)", 64), ("(4, 1)", 32), ("(1, 3)", 96)]
    {
        add(&format!("bm = 64, bn = {bn}, bk = 64"), &format!(", warps = {warps}"), (300, 301, 400));
    }
    for rest in ["stages = 2", "stages = 5", "schedule = strided", "cta_m = 16", "maxnreg = 255", "opt_level = 2"] {
        add("bm = 128, bn = 64, bk = 64", &format!(", {rest}"), (300, 133, 500));
    }
    for layout in ["row", "col"] {
        for (bk, k_step) in [(16, 32), (16, 64), (32, 64), (64, 16)] {
            let rest = format!(", k_step = {k_step}, b_layout = {layout}");
            add(&format!("bm = 32, bn = 32, bk = {bk}"), &rest, (211, 69, 301));
        }
    }
    let (rows, columns) = (format!(", {FAMILY}"), format!(", {FAMILY}, b_layout = col"));
    cases.extend(block_sizes_of(
        &[16, 48, 64, 96, 256],
        &[16, 32, 48, 64, 112],
        &[(64, rows.as_str()), (48, columns.as_str())],
    ));
    cases.extend(shapes_around(&format!("bm = 64, bn = 64, bk = 64, {FAMILY}")));
    cases.extend(patterns_of(&format!("bm = 64, bn = 32, bk = 16, {FAMILY}"), (500, 100)));
    cases
}
