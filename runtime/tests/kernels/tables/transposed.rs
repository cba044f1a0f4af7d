//! Products with a transposed sparse A: blocks are read as they are stored, by block column.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn block_sizes() {
    run_table("transposed, block sizes", &block_size_cases());
}

#[test]
fn types_and_layouts() {
    run_table("transposed, types and layouts", &type_and_layout_cases());
}

#[test]
fn shapes_and_patterns() {
    run_table("transposed, shapes and patterns", &[shape_cases(), pattern_cases()].concat());
}

#[test]
fn knobs() {
    run_table("transposed, knobs", &knob_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("transposed", &all().concat(), 17);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![block_size_cases(), type_and_layout_cases(), shape_cases(), pattern_cases(), knob_cases()]
}

/// Stored rows of a block, which are K, in steps of 8; stored columns, which are rows, in steps of 64.
fn block_size_cases() -> Vec<Case> {
    let mut cases = vec![];
    let bms = [8, 16, 24, 32, 40, 64, 72, 80, 112, 128, 200, 256, 504, 512];
    let bks = [64, 128, 192, 256, 320, 512];
    let kinds = [(128, ""), (64, ", dtype = bf16, b_layout = col"), (96, ", out = f32")];
    for (i, bm) in bms.into_iter().enumerate() {
        for (j, bk) in bks.into_iter().enumerate().filter(|(j, _)| (i + j) % 2 == 0) {
            let (bn, rest) = kinds[(i + j / 2) % kinds.len()];
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, transpose = on{rest}");
            cases.push(Case::new(&spec, (2 * bk + 37, bn + 45, 5 * bm + 3), Pattern("random:0.6")));
        }
    }
    cases
}

fn type_and_layout_cases() -> Vec<Case> {
    let mut cases = vec![];
    for layout in ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"] {
        for types in ["dtype = f16", "dtype = bf16, out = f32", "out = bf16"] {
            for sizes in ["bm = 64, bn = 128, bk = 128", "bm = 40, bn = 64, bk = 64", "bm = 112, bn = 256, bk = 192"] {
                let spec = format!("{sizes}, transpose = on, {types}{layout}");
                cases.push(Case::new(&spec, (411, 333, 521), Pattern("random:0.4")));
            }
        }
    }
    cases
}

fn shape_cases() -> Vec<Case> {
    let specs = [
        "bm = 112, bn = 128, bk = 512, transpose = on",
        "bm = 24, bn = 64, bk = 64, transpose = on, dtype = bf16",
        "bm = 64, bn = 256, bk = 128, transpose = on, b_layout = col, c_layout = col",
    ];
    specs.into_iter().flat_map(shapes_around).collect()
}

fn pattern_cases() -> Vec<Case> {
    let specs = [
        ("bm = 16, bn = 128, bk = 64, transpose = on", (1000, 200)),
        ("bm = 112, bn = 128, bk = 512, transpose = on, cluster = 2", (4000, 130)),
    ];
    let mut cases: Vec<Case> = specs.into_iter().flat_map(|(text, shape)| patterns_of(text, shape)).collect();
    cases.extend(tile_counts_of("bm = 64, bn = 64, bk = 64, transpose = on"));
    cases
}

fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String, shape| cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
    for cluster in [1, 2, 4] {
        add(format!("bm = 64, bn = 256, bk = 512, transpose = on, cluster = {cluster}"), (1200, 300, 500));
    }
    for cluster in [2, 4] {
        add(format!("bm = 64, bn = 64, bk = 256, transpose = on, consumers = 1, cluster = {cluster}"), (300, 700, 500));
    }
    for swizzle in [32, 64, 128] {
        add(format!("bm = 80, bn = 128, bk = 128, transpose = on, swizzle = {swizzle}"), (500, 300, 500));
        add(
            format!("bm = 80, bn = 128, bk = 128, transpose = on, b_layout = col, swizzle = {swizzle}"),
            (500, 300, 500),
        );
    }
    for consumers in [1, 2, 3] {
        add(format!("bm = 64, bn = 64, bk = 192, transpose = on, consumers = {consumers}"), (500, 300, 500));
        add(format!("bm = 64, bn = 192, bk = 64, transpose = on, consumers = {consumers}"), (300, 500, 500));
    }
    for k_step in [16, 32, 64, 112] {
        add(format!("bm = 112, bn = 128, bk = 128, transpose = on, k_step = {k_step}"), (500, 300, 900));
    }
    for stages in [2, 4] {
        add(format!("bm = 64, bn = 64, bk = 128, transpose = on, stages = {stages}"), (500, 300, 900));
    }
    cases
}
