//! Products with a sparse B, as it is stored and transposed.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn block_sizes() {
    run_table("dds, block sizes", &block_size_cases());
}

#[test]
fn types_and_layouts() {
    run_table("dds, types and layouts", &type_and_layout_cases());
}

#[test]
fn shapes_and_patterns() {
    run_table("dds, shapes and patterns", &[shape_cases(), pattern_cases()].concat());
}

#[test]
fn knobs() {
    run_table("dds, knobs", &knob_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("dds", &all().concat(), 17);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![block_size_cases(), type_and_layout_cases(), shape_cases(), pattern_cases(), knob_cases()]
}

/// Rows of a block are K as stored, and columns of C transposed.
fn block_size_cases() -> Vec<Case> {
    let mut cases = vec![];
    let kinds = [(128, ""), (64, ", dtype = bf16, a_layout = col"), (96, ", out = f32")];
    for (i, depth) in [8, 24, 32, 64, 80, 112, 128, 200, 512].into_iter().enumerate() {
        for (j, rows) in [64, 128, 192, 512].into_iter().enumerate() {
            let (bn, rest) = kinds[(i + j) % kinds.len()];
            let (sizes, transpose) = match (i + j) % 2 {
                0 => (format!("bm = {depth}, bn = {bn}, bk = {rows}"), "off"),
                _ => (format!("bm = {rows}, bn = {bn}, bk = {depth}"), "on"),
            };
            let spec = format!("{sizes}, op = dds, transpose = {transpose}{rest}");
            cases.push(Case::new(&spec, (bn + 45, 2 * rows + 37, 5 * depth + 3), Pattern("random:0.6")));
        }
    }
    cases
}

fn type_and_layout_cases() -> Vec<Case> {
    let mut cases = vec![];
    for layout in ["", ", a_layout = col", ", c_layout = col", ", a_layout = col, c_layout = col"] {
        for transpose in ["on", "off"] {
            for types in ["dtype = f16", "dtype = bf16, out = f32", "out = bf16"] {
                for sizes in ["bm = 128, bn = 128, bk = 64", "bm = 64, bn = 256, bk = 192"] {
                    let spec = format!("{sizes}, op = dds, transpose = {transpose}, {types}{layout}");
                    cases.push(Case::new(&spec, (333, 411, 521), Pattern("random:0.4")));
                }
            }
        }
    }
    // 8-bit operands lie along K on both sides.
    for types in ["dtype = e4m3, out = f32", "a = e4m3, b = e5m2", "dtype = e4m3, scale = tensor", "dtype = i8"] {
        for c_layout in ["row", "col"] {
            let spec =
                format!("bm = 128, bn = 128, bk = 112, op = dds, transpose = on, {types}, c_layout = {c_layout}");
            cases.push(Case::new(&spec, (333, 411, 521), Pattern("random:0.4")));
        }
    }
    cases
}

fn shape_cases() -> Vec<Case> {
    let specs = [
        "bm = 112, bn = 128, bk = 512, op = dds",
        "bm = 512, bn = 128, bk = 112, op = dds, transpose = on, dtype = bf16",
        "bm = 24, bn = 64, bk = 64, op = dds, a_layout = col, c_layout = col",
    ];
    specs.into_iter().flat_map(shapes_around).collect()
}

fn pattern_cases() -> Vec<Case> {
    let specs = [
        ("bm = 16, bn = 128, bk = 64, op = dds", (1000, 200)),
        ("bm = 128, bn = 64, bk = 48, op = dds, transpose = on, cluster = 2", (1000, 300)),
    ];
    let mut cases: Vec<Case> = specs.into_iter().flat_map(|(text, shape)| patterns_of(text, shape)).collect();
    cases.extend(tile_counts_of("bm = 64, bn = 64, bk = 64, op = dds, transpose = on"));
    cases
}

fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String, shape| cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
    for transpose in ["off", "on"] {
        for cluster in [1, 2, 4] {
            let sizes = if transpose == "on" { "bm = 512, bn = 256, bk = 64" } else { "bm = 64, bn = 256, bk = 512" };
            add(format!("{sizes}, op = dds, transpose = {transpose}, cluster = {cluster}"), (300, 1200, 500));
        }
        for consumers in [1, 2, 3] {
            let spec = format!("bm = 192, bn = 192, bk = 192, op = dds, transpose = {transpose}");
            add(format!("{spec}, consumers = {consumers}"), (300, 500, 500));
        }
        for schedule in ["strided", "balanced"] {
            let spec = format!("bm = 64, bn = 128, bk = 64, op = dds, transpose = {transpose}");
            add(format!("{spec}, schedule = {schedule}"), (3000, 1000, 500));
        }
    }
    cases
}
