//! The family without tensor cores, which adds in global memory or in registers.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn scalar_types() {
    run_table("scalar types", &type_cases());
}

#[test]
fn scalar_block_sizes() {
    run_table("scalar block sizes", &block_size_cases());
}

#[test]
fn scalar_shapes() {
    run_table("scalar shapes", &shape_cases());
}

#[test]
fn scalar_patterns() {
    run_table("scalar patterns", &pattern_cases());
}

#[test]
fn scalar_knobs() {
    run_table("scalar knobs", &knob_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("scalar", &all().concat(), 19);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![type_cases(), block_size_cases(), shape_cases(), pattern_cases(), knob_cases()]
}

/// Ways of adding, with the type of the result where it is not the operands'.
const SUMS: [&str; 2] = ["accumulate = atomic, out = f32", "accumulate = register"];
const DTYPES: [&str; 3] = ["f16", "bf16", "f32"];

/// Every operand type in both ways of adding, with results of every type.
fn type_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |rest: String| {
        let spec = format!("bm = 64, bn = 64, bk = 64, mma = scalar, {rest}");
        cases.push(Case::new(&spec, (211, 133, 321), Pattern("random:0.4")));
    };
    for dtype in DTYPES {
        add(format!("dtype = {dtype}, accumulate = atomic, out = f32"));
        for out in DTYPES {
            add(format!("dtype = {dtype}, accumulate = register, out = {out}"));
        }
    }
    cases
}

fn block_size_cases() -> Vec<Case> {
    let mut cases = vec![];
    for sums in SUMS {
        let rest = DTYPES.map(|dtype| format!(", mma = scalar, dtype = {dtype}, {sums}"));
        let kinds = [(64, rest[0].as_str()), (128, rest[1].as_str()), (64, rest[2].as_str())];
        let sizes = [16, 32, 48, 64, 80, 96, 112, 128, 256];
        cases.extend(block_sizes_of(&sizes, &sizes, &kinds));
    }
    cases
}

fn shape_cases() -> Vec<Case> {
    let specs = SUMS.into_iter().flat_map(|sums| {
        [
            format!("bm = 32, bn = 64, bk = 32, mma = scalar, dtype = f32, {sums}"),
            format!("bm = 48, bn = 64, bk = 80, mma = scalar, dtype = f16, {sums}"),
        ]
    });
    specs.flat_map(|spec| shapes_around(&spec)).collect()
}

fn pattern_cases() -> Vec<Case> {
    let mut cases = vec![];
    for sums in SUMS {
        cases.extend(patterns_of(&format!("bm = 32, bn = 64, bk = 16, mma = scalar, dtype = f32, {sums}"), (500, 100)));
        cases.extend(tile_counts_of(&format!("bm = 64, bn = 64, bk = 64, mma = scalar, {sums}")));
    }
    cases
}

/// Loads of one element and of 16 bytes, every architecture, tiles of every width.
fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String| cases.push(Case::new(&spec, (200, 150, 300), Pattern("random:0.5")));
    for (dtype, vectors) in [("f16", [1, 8]), ("bf16", [1, 8]), ("f32", [1, 4])] {
        for vector in vectors {
            let rest = format!("dtype = {dtype}, accumulate = register, vector = {vector}");
            add(format!("bm = 64, bn = 64, bk = 64, mma = scalar, {rest}"));
            add(format!("bm = 48, bn = 64, bk = 80, mma = scalar, {rest}, out = f32"));
        }
    }
    for sums in SUMS {
        for arch in ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"] {
            add(format!("bm = 64, bn = 64, bk = 32, mma = scalar, {sums}, arch = {arch}"));
            add(format!("bm = 64, bn = 64, bk = 32, mma = scalar, dtype = f32, {sums}, arch = {arch}"));
        }
        for bn in [32, 64, 128, 256] {
            add(format!("bm = 64, bn = {bn}, bk = 64, mma = scalar, {sums}"));
        }
        for cta_m in [8, 16, 32, 48] {
            add(format!("bm = 96, bn = 64, bk = 32, mma = scalar, {sums}, cta_m = {cta_m}"));
        }
    }
    for (dtype, vector) in [("f16", 8), ("bf16", 8), ("f32", 4)] {
        for cta_m in [16, 32, 64, 96] {
            add(format!(
                "bm = 192, bn = 128, bk = 32, mma = scalar, dtype = {dtype}, vector = {vector}, cta_m = {cta_m}"
            ));
        }
    }
    cases
}
