//! Hopper's family on i8: i32 results are equal to the last bit.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around};

use Blocks::Pattern;

#[test]
fn int8_types_and_scales() {
    run_table("INT8 types and scales", &type_and_scale_cases());
}

#[test]
fn int8_block_sizes() {
    run_table("INT8 block sizes", &block_size_cases());
}

#[test]
fn int8_shapes() {
    run_table("INT8 shapes", &shape_cases());
}

#[test]
fn int8_patterns() {
    run_table("INT8 patterns", &pattern_cases());
}

#[test]
fn int8_knobs() {
    run_table("INT8 knobs", &knob_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("INT8", &all().concat(), 19);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![type_and_scale_cases(), block_size_cases(), shape_cases(), pattern_cases(), knob_cases()]
}

/// Results of every type and layout; 16-bit ones scaled, since sums of bytes soon leave the range of an f16.
fn type_and_scale_cases() -> Vec<Case> {
    let mut cases = vec![];
    for layout in ["row", "col"] {
        let mut add = |sizes: &str, rest: &str| {
            let spec = format!("{sizes}, dtype = i8, {rest}, c_layout = {layout}");
            cases.push(Case::new(&spec, (411, 333, 1021), Pattern("random:0.4")));
        };
        for sizes in ["bm = 128, bn = 128, bk = 128", "bm = 64, bn = 256, bk = 64", "bm = 512, bn = 128, bk = 112"] {
            add(sizes, "out = i32");
            add(sizes, "out = f32");
            add(sizes, "out = bf16");
            for out in ["f16", "bf16", "f32"] {
                add(sizes, &format!("out = {out}, scale = tensor"));
                add(sizes, &format!("out = {out}, scale = row_col"));
            }
        }
    }
    cases
}

fn block_size_cases() -> Vec<Case> {
    let kinds = [
        (128, ", dtype = i8"),
        (64, ", dtype = i8, out = f32"),
        (96, ", dtype = i8, out = f16, scale = row_col"),
        (128, ", dtype = i8, c_layout = col"),
    ];
    block_sizes_of(&[64, 128, 192, 256, 512], &[16, 32, 48, 64, 96, 112, 128, 144, 256, 512], &kinds)
}

fn shape_cases() -> Vec<Case> {
    let specs = [
        "bm = 512, bn = 128, bk = 112, dtype = i8",
        "bm = 64, bn = 64, bk = 16, dtype = i8, c_layout = col",
        "bm = 128, bn = 128, bk = 128, dtype = i8, out = f16, scale = row_col",
    ];
    specs.into_iter().flat_map(shapes_around).collect()
}

fn pattern_cases() -> Vec<Case> {
    let specs = [
        ("bm = 64, bn = 128, bk = 32, dtype = i8", (1000, 200)),
        ("bm = 128, bn = 64, bk = 144, dtype = i8, out = f16, scale = tensor", (1000, 200)),
    ];
    specs.into_iter().flat_map(|(text, shape)| patterns_of(text, shape)).collect()
}

fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String, shape| cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
    for cluster in [1, 2, 4] {
        add(format!("bm = 512, bn = 128, bk = 128, dtype = i8, cluster = {cluster}"), (1200, 300, 1000));
        add(format!("bm = 64, bn = 64, bk = 64, dtype = i8, cluster = {cluster}"), (300, 700, 500));
    }
    for k_step in [32, 64, 128] {
        add(format!("bm = 128, bn = 128, bk = 128, dtype = i8, k_step = {k_step}"), (500, 300, 900));
    }
    for consumers in [1, 2, 3] {
        add(format!("bm = 192, bn = 64, bk = 128, dtype = i8, consumers = {consumers}"), (500, 300, 900));
    }
    for bn in [16, 32, 64, 96, 160, 192, 256] {
        add(format!("bm = 64, bn = {bn}, bk = 128, dtype = i8"), (300, 600, 700));
    }
    cases
}
