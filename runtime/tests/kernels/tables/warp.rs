//! The warp families: `mma.sync` from Ampere on, `wmma` from Volta on. Their kernels run on newer devices too.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn warp_types_and_layouts() {
    run_table("warp types and layouts", &type_and_layout_cases());
}

#[test]
fn warp_block_sizes() {
    run_table("warp block sizes", &block_size_cases());
}

#[test]
fn warp_architectures() {
    run_table("warp architectures", &architecture_cases());
}

#[test]
fn warp_eight_bit() {
    run_table("warp 8-bit operands", &eight_bit_cases());
}

#[test]
fn warp_shapes() {
    run_table("warp shapes", &shape_cases());
}

#[test]
fn warp_patterns() {
    run_table("warp patterns", &pattern_cases());
}

#[test]
fn warp_knobs() {
    run_table("warp knobs", &knob_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("warp", &all().concat(), 19);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![
        type_and_layout_cases(),
        block_size_cases(),
        architecture_cases(),
        eight_bit_cases(),
        shape_cases(),
        pattern_cases(),
        knob_cases(),
    ]
}

const FAMILIES: [&str; 2] = ["mma = mma_sync", "mma = wmma"];

/// 16-bit operands with every result type and pair of layouts.
fn type_and_layout_cases() -> Vec<Case> {
    let layouts = ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"];
    let mut cases = vec![];
    for family in FAMILIES {
        for dtype in ["f16", "bf16"] {
            for out in ["f16", "bf16", "f32"] {
                for layout in layouts {
                    let spec = format!("bm = 64, bn = 128, bk = 64, {family}, dtype = {dtype}, out = {out}{layout}");
                    cases.push(Case::new(&spec, (411, 333, 521), Pattern("random:0.4")));
                }
            }
        }
    }
    cases
}

/// Blocks from one fragment to many, square and not: 96 x 80 and 48 x 112 among them.
fn block_size_cases() -> Vec<Case> {
    let mut cases = vec![];
    for family in FAMILIES {
        let plain = format!(", {family}");
        let bf16 = format!(", {family}, dtype = bf16, out = f32");
        let turned = format!(", {family}, b_layout = col");
        let kinds = [(128, plain.as_str()), (64, bf16.as_str()), (96, turned.as_str())];
        let bms = [16, 32, 48, 64, 80, 96, 112, 128, 192, 256];
        cases.extend(block_sizes_of(&bms, &[16, 32, 48, 64, 80, 96, 112, 128, 192, 256], &kinds));
        for (bm, bk) in [(96, 80), (48, 112), (80, 48), (512, 112)] {
            let spec = format!("bm = {bm}, bn = 128, bk = {bk}, {family}");
            cases.push(Case::new(&spec, (3 * bm - 7, 300, 6 * bk + 5), Pattern("random:0.6")));
        }
    }
    cases
}

/// The instructions of every architecture, on whatever device there is.
fn architecture_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String| cases.push(Case::new(&spec, (300, 333, 500), Pattern("random:0.5")));
    for arch in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"] {
        for dtype in ["f16", "bf16"] {
            add(format!("bm = 64, bn = 64, bk = 48, mma = mma_sync, dtype = {dtype}, arch = {arch}"));
            add(format!("bm = 64, bn = 64, bk = 48, mma = wmma, dtype = {dtype}, arch = {arch}"));
        }
    }
    // Before Ampere: no bf16, no asynchronous copies.
    for arch in ["sm_70", "sm_75"] {
        for (bm, bk) in [(16, 16), (64, 64), (96, 80), (128, 112)] {
            add(format!("bm = {bm}, bn = 64, bk = {bk}, mma = wmma, arch = {arch}"));
            add(format!("bm = {bm}, bn = 64, bk = {bk}, mma = wmma, arch = {arch}, out = f32, b_layout = col"));
        }
    }
    cases
}

/// FP8 and i8 on `mma.sync`, from Ada and Ampere on.
fn eight_bit_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String, shape| cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
    for mix in ["a = e4m3, b = e4m3", "a = e4m3, b = e5m2", "a = e5m2, b = e4m3", "a = e5m2, b = e5m2"] {
        for out in ["bf16", "f16", "f32", "e4m3"] {
            add(format!("bm = 64, bn = 128, bk = 64, mma = mma_sync, {mix}, out = {out}"), (300, 333, 521));
        }
    }
    for out in ["i32", "f32", "bf16"] {
        for layout in ["row", "col"] {
            let rest = format!("mma = mma_sync, dtype = i8, out = {out}, c_layout = {layout}");
            add(format!("bm = 64, bn = 128, bk = 64, {rest}"), (300, 333, 521));
        }
    }
    for dtype in ["e4m3", "i8"] {
        for (bm, bk) in [(16, 32), (32, 64), (96, 96), (48, 128), (128, 128), (256, 64)] {
            let spec = format!("bm = {bm}, bn = 64, bk = {bk}, mma = mma_sync, dtype = {dtype}");
            add(spec, (3 * bm - 7, 200, 5 * bk + 13));
        }
    }
    cases
}

fn shape_cases() -> Vec<Case> {
    [
        "bm = 64, bn = 128, bk = 64, mma = mma_sync",
        "bm = 48, bn = 64, bk = 112, mma = mma_sync, dtype = bf16, b_layout = col, c_layout = col",
        "bm = 128, bn = 64, bk = 64, mma = mma_sync, dtype = e4m3",
        "bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = i8",
        "bm = 96, bn = 64, bk = 80, mma = wmma",
        "bm = 64, bn = 64, bk = 32, mma = wmma, arch = sm_70, out = f32",
    ]
    .into_iter()
    .flat_map(shapes_around)
    .collect()
}

fn pattern_cases() -> Vec<Case> {
    let specs = [
        ("bm = 64, bn = 128, bk = 16, mma = mma_sync", (1000, 200)),
        ("bm = 96, bn = 64, bk = 80, mma = mma_sync, out = f32", (1000, 200)),
        ("bm = 64, bn = 64, bk = 64, mma = wmma, dtype = bf16", (1000, 200)),
        ("bm = 32, bn = 64, bk = 32, mma = wmma, arch = sm_70", (500, 200)),
    ];
    let mut cases: Vec<Case> = specs.into_iter().flat_map(|(text, shape)| patterns_of(text, shape)).collect();
    cases.extend(tile_counts_of("bm = 64, bn = 64, bk = 64, mma = mma_sync"));
    cases.extend(tile_counts_of("bm = 64, bn = 64, bk = 64, mma = wmma, schedule = strided"));
    cases
}

fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String| cases.push(Case::new(&spec, (500, 300, 700), Pattern("random:0.5")));
    for family in FAMILIES {
        for warps in ["(1, 4)", "(2, 2)", "(4, 1)", "(2, 4)", "(4, 2)"] {
            add(format!("bm = 128, bn = 128, bk = 64, {family}, warps = {warps}"));
        }
        for stages in 2..=4 {
            add(format!("bm = 128, bn = 64, bk = 64, {family}, stages = {stages}"));
        }
        for k_step in [16, 32, 64] {
            add(format!("bm = 128, bn = 64, bk = 64, {family}, k_step = {k_step}"));
        }
        for bn in [32, 64, 96, 128, 192, 256] {
            add(format!("bm = 64, bn = {bn}, bk = 64, {family}"));
        }
        for cta_m in [16, 32, 64, 128, 256] {
            add(format!("bm = 256, bn = 64, bk = 64, {family}, cta_m = {cta_m}"));
        }
        add(format!("bm = 512, bn = 128, bk = 48, {family}, acc = f16, cta_m = 512, warps = (4, 2)"));
        for maxnreg in [64, 128, 255] {
            add(format!("bm = 64, bn = 64, bk = 64, {family}, maxnreg = {maxnreg}"));
        }
        add(format!("bm = 64, bn = 64, bk = 64, {family}, opt_level = 2"));
        add(format!("bm = 2048, bn = 64, bk = 1024, {family}"));
    }
    add("bm = 64, bn = 64, bk = 32, mma = scalar, maxnreg = 96, opt_level = 1".to_owned());
    for shape in ["m16n16k16", "m32n8k16", "m8n32k16"] {
        for dtype in ["f16", "bf16"] {
            add(format!("bm = 64, bn = 64, bk = 64, mma = wmma, shape = {shape}, dtype = {dtype}"));
            add(format!("bm = 64, bn = 64, bk = 48, mma = wmma, shape = {shape}, dtype = {dtype}, b_layout = col"));
        }
        add(format!("bm = 64, bn = 64, bk = 64, mma = wmma, shape = {shape}, arch = sm_70"));
    }
    cases
}
