//! Hopper's family on e4m3 and e5m2.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn fp8_types_and_layouts() {
    run_table("FP8 types and layouts", &type_and_layout_cases());
}

#[test]
fn fp8_block_sizes() {
    run_table("FP8 block sizes", &block_size_cases());
}

#[test]
fn fp8_scales() {
    run_table("FP8 scales", &scale_cases());
}

#[test]
fn fp8_accumulation() {
    run_table("FP8 accumulation", &accumulation_cases());
}

#[test]
fn fp8_shapes() {
    run_table("FP8 shapes", &shape_cases());
}

#[test]
fn fp8_patterns() {
    run_table("FP8 patterns", &pattern_cases());
}

#[test]
fn fp8_knobs() {
    run_table("FP8 knobs", &knob_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("FP8", &all().concat(), 19);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![
        type_and_layout_cases(),
        block_size_cases(),
        scale_cases(),
        accumulation_cases(),
        shape_cases(),
        pattern_cases(),
        knob_cases(),
    ]
}

const MIXES: [&str; 4] = ["a = e4m3, b = e4m3", "a = e4m3, b = e5m2", "a = e5m2, b = e4m3", "a = e5m2, b = e5m2"];
const OUTS: [&str; 4] = ["bf16", "f16", "f32", "e4m3"];
const LAYOUTS: [&str; 2] = ["row", "col"];

/// The four mixes, every result type, both layouts of C, on tiles whose results are stored late and at once.
fn type_and_layout_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (at, mix) in MIXES.into_iter().enumerate() {
        for out in OUTS {
            for layout in LAYOUTS {
                let (sizes, shape) = match at % 2 {
                    0 => ("bm = 128, bn = 128, bk = 128", (411, 333, 1021)),
                    _ => ("bm = 64, bn = 256, bk = 64", (411, 400, 521)),
                };
                let spec = format!("{sizes}, {mix}, out = {out}, c_layout = {layout}");
                cases.push(Case::new(&spec, shape, Pattern("random:0.4")));
            }
        }
    }
    cases
}

/// Blocks of whole and of half instructions, and of whole and of broken lines of 128 bytes.
fn block_size_cases() -> Vec<Case> {
    let kinds = [
        (128, ", dtype = e4m3"),
        (64, ", a = e4m3, b = e5m2, out = f16"),
        (96, ", dtype = e5m2, out = f32"),
        (128, ", dtype = e4m3, accumulate = promoted"),
        (128, ", dtype = e4m3, out = e4m3"),
        (64, ", dtype = e4m3, scale = block"),
    ];
    let bms = [64, 128, 192, 256, 384, 512];
    block_sizes_of(&bms, &[16, 32, 48, 64, 80, 96, 112, 128, 144, 176, 240, 256, 512], &kinds)
}

/// Every kind of scales with every result type; factors of rows, columns and blocks at ragged ends.
fn scale_cases() -> Vec<Case> {
    let mut cases = vec![];
    for scale in ["tensor", "row_col", "block"] {
        for out in OUTS {
            for layout in LAYOUTS {
                let spec = format!(
                    "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = {scale}, out = {out}, c_layout = {layout}"
                );
                cases.push(Case::new(&spec, (411, 333, 1000), Pattern("random:0.5")));
            }
        }
        for (bm, bn, bk) in
            [(64, 64, 32), (64, 128, 48), (128, 256, 64), (256, 64, 96), (512, 128, 112), (128, 128, 256)]
        {
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, a = e5m2, b = e4m3, scale = {scale}");
            cases.push(Case::new(&spec, (2 * bm + 37, 3 * bn + 21, 5 * bk + 13), Pattern("random:0.6")));
        }
        for n in [1, 127, 128, 129, 256, 1000] {
            let spec = format!("bm = 64, bn = 64, bk = 128, dtype = e4m3, scale = {scale}");
            cases.push(Case::new(&spec, (200, n, 700), Pattern("random:0.5")));
        }
    }
    for scale in ["tensor", "row_col"] {
        for accumulate in ["fast", "promoted"] {
            let spec =
                format!("bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = {scale}, accumulate = {accumulate}");
            cases.push(Case::new(&spec, (500, 300, 3000), Pattern("random:0.5")));
        }
    }
    cases
}

/// Short and long sums, in the tensor core and in registers of our own.
fn accumulation_cases() -> Vec<Case> {
    let mut cases = vec![];
    for accumulate in ["fast", "promoted"] {
        for (bm, bk, k) in [(64, 16, 2000), (128, 48, 3000), (128, 128, 8192), (256, 256, 5000), (512, 512, 4096)] {
            let spec = format!("bm = {bm}, bn = 128, bk = {bk}, dtype = e4m3, out = f32, accumulate = {accumulate}");
            cases.push(Case::new(&spec, (bm + 100, 200, k), Pattern("random:0.7")));
        }
        let spec = format!("bm = 64, bn = 128, bk = 64, dtype = e5m2, accumulate = {accumulate}");
        cases.push(Case::new(&spec, (300, 200, 4000), Pattern("random:0.7")));
    }
    cases
}

fn shape_cases() -> Vec<Case> {
    [
        "bm = 512, bn = 128, bk = 112, dtype = e4m3",
        "bm = 64, bn = 64, bk = 16, dtype = e4m3, out = e4m3",
        "bm = 128, bn = 256, bk = 128, a = e4m3, b = e5m2, c_layout = col",
        "bm = 128, bn = 128, bk = 48, dtype = e4m3, accumulate = promoted, out = f32",
        "bm = 64, bn = 128, bk = 128, dtype = e4m3, scale = block",
        "bm = 64, bn = 64, bk = 64, dtype = e4m3, scale = row_col, out = f16, c_layout = col",
    ]
    .into_iter()
    .flat_map(shapes_around)
    .collect()
}

fn pattern_cases() -> Vec<Case> {
    let specs = [
        ("bm = 64, bn = 128, bk = 16, dtype = e4m3", (1000, 200)),
        ("bm = 64, bn = 64, bk = 128, dtype = e4m3, scale = block", (1000, 200)),
        ("bm = 512, bn = 128, bk = 112, dtype = e4m3, cluster = 2", (4000, 130)),
        ("bm = 128, bn = 64, bk = 64, a = e5m2, b = e4m3, scale = row_col, c_layout = col", (1000, 200)),
    ];
    let mut cases: Vec<Case> = specs.into_iter().flat_map(|(text, shape)| patterns_of(text, shape)).collect();
    cases.extend(tile_counts_of("bm = 64, bn = 64, bk = 128, dtype = e4m3"));
    cases
}

fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String, shape| cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
    for cluster in [1, 2, 4] {
        add(format!("bm = 512, bn = 128, bk = 128, dtype = e4m3, cluster = {cluster}"), (1200, 300, 1000));
        add(format!("bm = 64, bn = 64, bk = 64, dtype = e4m3, scale = row_col, cluster = {cluster}"), (300, 700, 500));
        add(format!("bm = 128, bn = 64, bk = 128, dtype = e4m3, scale = block, cluster = {cluster}"), (500, 700, 900));
    }
    for stages in 2..=6 {
        add(format!("bm = 128, bn = 64, bk = 128, dtype = e4m3, stages = {stages}"), (500, 300, 1800));
    }
    for k_step in [32, 64, 128] {
        add(format!("bm = 128, bn = 128, bk = 128, dtype = e4m3, k_step = {k_step}"), (500, 300, 900));
    }
    for k_step in [32, 64, 112] {
        add(format!("bm = 128, bn = 128, bk = 112, dtype = e4m3, k_step = {k_step}"), (500, 300, 900));
    }
    for consumers in [1, 2, 3] {
        add(format!("bm = 192, bn = 64, bk = 128, dtype = e4m3, consumers = {consumers}"), (500, 300, 900));
    }
    for bn in [16, 32, 64, 96, 160, 192, 256] {
        add(format!("bm = 64, bn = {bn}, bk = 128, dtype = e4m3"), (300, 600, 700));
        add(format!("bm = 64, bn = {bn}, bk = 128, dtype = e4m3, out = e4m3, c_layout = col"), (300, 600, 700));
    }
    // Staging rows of one vector of 16 bytes.
    add("bm = 512, bn = 16, bk = 48, dtype = e4m3, out = e4m3".to_owned(), (1100, 50, 500));
    cases
}
