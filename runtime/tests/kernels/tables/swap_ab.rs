//! Blocks of any height with swap-AB: dense columns are the rows of WGMMA.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn block_sizes() {
    run_table("swap-AB, block sizes", &block_size_cases());
}

#[test]
fn types_and_layouts() {
    run_table("swap-AB, types and layouts", &type_and_layout_cases());
}

#[test]
fn shapes_and_patterns() {
    run_table("swap-AB, shapes and patterns", &[shape_cases(), pattern_cases()].concat());
}

#[test]
fn knobs() {
    run_table("swap-AB, knobs", &knob_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("swap-AB", &all().concat(), 23);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![block_size_cases(), type_and_layout_cases(), shape_cases(), pattern_cases(), knob_cases()]
}

fn block_size_cases() -> Vec<Case> {
    let kinds = [(128, ", swap = on"), (64, ", swap = on, dtype = bf16"), (256, ", swap = on, c_layout = col")];
    let mut cases = block_sizes_of(
        &[8, 16, 24, 32, 40, 64, 80, 96, 136, 200, 256, 488, 512],
        &[8, 16, 24, 32, 40, 64, 80, 112, 128],
        &kinds,
    );
    let deep = [(16, 200), (24, 256), (32, 512), (96, 240)];
    cases.extend(deep.map(|(bm, bk)| {
        let spec = format!("bm = {bm}, bn = 64, bk = {bk}, swap = on");
        Case::new(&spec, (2 * bm + 3, 100, 3 * bk + 5), Pattern("random:0.6"))
    }));
    cases
}

fn type_and_layout_cases() -> Vec<Case> {
    let mut cases = vec![];
    for layout in ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"] {
        for transpose in ["on", "off"] {
            for types in ["dtype = f16", "dtype = bf16, out = f32", "out = bf16"] {
                for sizes in ["bm = 32, bn = 128, bk = 32", "bm = 40, bn = 64, bk = 24"] {
                    let spec = format!("{sizes}, transpose = {transpose}, {types}{layout}");
                    cases.push(Case::new(&spec, (333, 411, 521), Pattern("random:0.4")));
                }
            }
        }
        for transpose in ["on", "off"] {
            let layout = layout.replace("b_layout", "a_layout");
            let spec = format!("bm = 16, bn = 128, bk = 48, op = dds, transpose = {transpose}{layout}");
            cases.push(Case::new(&spec, (333, 411, 521), Pattern("random:0.4")));
        }
    }
    // 8-bit operands lie along K on both sides.
    for types in ["dtype = e4m3", "a = e4m3, b = e5m2, out = f32", "dtype = e5m2, out = f16", "dtype = i8"] {
        for sizes in ["bm = 32, bn = 128, bk = 32", "bm = 24, bn = 64, bk = 48", "bm = 96, bn = 64, bk = 128"] {
            for c_layout in ["row", "col"] {
                let spec = format!("{sizes}, {types}, c_layout = {c_layout}");
                cases.push(Case::new(&spec, (333, 411, 521), Pattern("random:0.4")));
            }
        }
    }
    cases
}

fn shape_cases() -> Vec<Case> {
    let specs = [
        "bm = 32, bn = 128, bk = 32",
        "bm = 24, bn = 64, bk = 40, b_layout = col, c_layout = col",
        "bm = 96, bn = 128, bk = 80, dtype = bf16",
        "bm = 16, bn = 64, bk = 200, op = dds",
    ];
    specs.into_iter().flat_map(shapes_around).collect()
}

fn pattern_cases() -> Vec<Case> {
    let specs = [
        ("bm = 16, bn = 128, bk = 16", (1000, 200)),
        ("bm = 64, bn = 128, bk = 64, swap = on", (1000, 300)),
        ("bm = 40, bn = 64, bk = 24, transpose = on", (500, 100)),
    ];
    let mut cases: Vec<Case> = specs.into_iter().flat_map(|(text, shape)| patterns_of(text, shape)).collect();
    cases.extend(tile_counts_of("bm = 32, bn = 64, bk = 32"));
    cases
}

fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String, shape| cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
    for pack in [1, 2, 3, 5, 8, 16] {
        add(format!("bm = 16, bn = 128, bk = 16, pack = {pack}"), (500, 300, 300));
    }
    for stages in [2, 3, 5] {
        add(format!("bm = 32, bn = 128, bk = 32, stages = {stages}"), (300, 300, 700));
    }
    for k_step in [16, 32, 64, 128, 256] {
        add(format!("bm = 32, bn = 64, bk = 64, k_step = {k_step}"), (300, 300, 700));
    }
    for (bn, consumers) in [(64, 1), (128, 1), (128, 2), (192, 3), (192, 1), (256, 2)] {
        add(format!("bm = 24, bn = {bn}, bk = 32, consumers = {consumers}"), (300, 500, 300));
    }
    for schedule in ["strided", "balanced"] {
        add(format!("bm = 32, bn = 128, bk = 32, schedule = {schedule}"), (3000, 1000, 500));
    }
    cases
}
