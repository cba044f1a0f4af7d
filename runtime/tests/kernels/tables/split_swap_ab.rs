//! Swap-AB products whose clusters share the K of tiles: parts are records of stage metadata.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn parts_and_block_sizes() {
    run_table("split K with swap-AB, parts and block sizes", &[part_cases(), block_size_cases()].concat());
}

#[test]
fn kinds() {
    run_table("split K with swap-AB, kinds", &kind_cases());
}

#[test]
fn shapes_and_patterns() {
    run_table("split K with swap-AB, shapes and patterns", &[shape_cases(), pattern_cases()].concat());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("split K with swap-AB", &all().concat(), 13);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![part_cases(), block_size_cases(), kind_cases(), shape_cases(), pattern_cases()]
}

/// Every number of parts, of tiles that have fewer records and of tiles that have many more.
fn part_cases() -> Vec<Case> {
    let parts = (2..=16).map(|parts| parts.to_string()).chain(["auto".to_owned()]);
    let case = |(i, parts): (usize, String)| {
        let sizes = ["bm = 32, bn = 64, bk = 64", "bm = 16, bn = 128, bk = 32, pack = 2", "bm = 8, bn = 64, bk = 128"];
        let spec = format!("{}, split = {parts}", sizes[i % sizes.len()]);
        Case::new(&spec, (500, 45, 3000), Blocks::Lengths(&[0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 5, 17, 40, 90]))
    };
    parts.enumerate().map(case).collect()
}

fn block_size_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (i, bm) in [8, 16, 24, 32, 40, 80, 136, 200, 488].into_iter().enumerate() {
        for (j, bk) in [8, 16, 40, 64, 112, 200].into_iter().enumerate().skip(i % 2).step_by(2) {
            let bn = [64, 128, 256, 192][(i + j) % 4];
            let split = ["auto", "2", "3", "8"][(i + 3 * j) % 4];
            let types = ["", ", dtype = bf16", ", out = f32"][(i + j) % 3];
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, swap = on, split = {split}{types}");
            cases.push(Case::new(&spec, (2 * bm + 37, bn + 5, 11 * bk + 13), Pattern("random:0.7")));
        }
    }
    cases
}

/// Operations, layouts, schedules, 8-bit sums, epilogues, permuted rows.
fn kind_cases() -> Vec<Case> {
    let kinds = [
        "bm = 32, bn = 128, bk = 32, op = dds",
        "bm = 24, bn = 64, bk = 64, op = dds, transpose = on, c_layout = col",
        "bm = 32, bn = 64, bk = 48, transpose = on, out = f32",
        "bm = 32, bn = 64, bk = 32, b_layout = col, c_layout = col",
        "bm = 64, bn = 128, bk = 64, swap = on",
        "bm = 16, bn = 256, bk = 16, schedule = strided",
        "bm = 16, bn = 128, bk = 16, pack = 16",
        "bm = 32, bn = 64, bk = 64, consumers = 1, stages = 3",
        "bm = 24, bn = 192, bk = 48, consumers = 3",
        "bm = 32, bn = 64, bk = 32, k_step = 128",
        "bm = 32, bn = 128, bk = 64, pdl = on",
        "bm = 32, bn = 128, bk = 32, permute = on",
        "bm = 40, bn = 64, bk = 16, out = f32, permute = on",
        "bm = 32, bn = 128, bk = 32, dtype = e4m3",
        "bm = 24, bn = 64, bk = 48, a = e5m2, b = e4m3, out = f32, c_layout = col",
        "bm = 32, bn = 128, bk = 64, dtype = i8",
        "bm = 32, bn = 256, bk = 32, epilogue = \"|bias: Rows<f32>, alpha: f32| gelu(alpha * acc + bias)\"",
        "bm = 32, bn = 256, bk = 32, epilogue = \"|bias: Cols<f32>, res: Dense<f16>| (acc + bias + res, row_max(acc))\"",
        "bm = 24, bn = 64, bk = 40, out = f32, epilogue = \"|bias: Rows<f32>, res: Dense<f32>| (relu(acc + bias) + res, row_sum(acc))\"",
        "bm = 32, bn = 128, bk = 64, op = dds, epilogue = \"|bias: Cols<f32>| (acc + bias, row_max(acc))\"",
        "bm = 40, bn = 128, bk = 24, beta = on, c_layout = col",
    ];
    let of = |kind: &str| ["auto", "4"].map(|split| format!("{kind}, split = {split}"));
    let shape = (300, 330, 1100);
    kinds.iter().flat_map(|kind| of(kind)).map(|spec| Case::new(&spec, shape, Pattern("powerlaw:0.5"))).collect()
}

fn shape_cases() -> Vec<Case> {
    ["bm = 32, bn = 64, bk = 64, split = 3", "bm = 24, bn = 128, bk = 40, b_layout = col, split = auto"]
        .into_iter()
        .flat_map(shapes_around)
        .collect()
}

fn pattern_cases() -> Vec<Case> {
    let split =
        [("bm = 16, bn = 64, bk = 16, split = auto", (700, 70)), ("bm = 32, bn = 128, bk = 32, split = 4", (900, 200))];
    let counted = split.iter().flat_map(|(text, _)| tile_counts_of(text));
    split.iter().flat_map(|(text, shape)| patterns_of(text, *shape)).chain(counted).collect()
}
