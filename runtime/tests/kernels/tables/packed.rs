//! Block rows that share a CTA tile and the columns of B: `pack` with `swap = off`.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn block_sizes() {
    run_table("packed, block sizes", &block_size_cases());
}

#[test]
fn kinds() {
    run_table("packed, kinds", &kind_cases());
}

#[test]
fn shapes_and_patterns() {
    run_table("packed, shapes and patterns", &[shape_cases(), pattern_cases()].concat());
}

#[test]
fn clusters() {
    run_table("packed, clusters", &cluster_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("packed", &all().concat(), 11);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![block_size_cases(), kind_cases(), shape_cases(), pattern_cases(), cluster_cases()]
}

fn block_size_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (i, bm) in [64, 128].into_iter().enumerate() {
        for (j, bk) in [32, 48, 64, 80, 96, 112, 128, 192, 512].into_iter().enumerate() {
            let (bn, pack) = [(64, 2), (96, 3), (16, 2), (128, 2), (32, 3)][(2 * i + j) % 5];
            let types = ["", ", dtype = bf16", ", out = f32"][(i + j) % 3];
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, swap = off, pack = {pack}{types}");
            cases.push(Case::new(&spec, (5 * bm + 37, bn + 5, 7 * bk + 13), Pattern("random:0.5")));
        }
    }
    cases
}

/// Operations, layouts, schedules, 8-bit sums, divided K, epilogues, permuted rows.
fn kind_cases() -> Vec<Case> {
    let kinds = [
        "bm = 64, bn = 256, bk = 64",
        "bm = 64, bn = 64, bk = 128, op = dds, transpose = on",
        "bm = 128, bn = 64, bk = 64, b_layout = col",
        "bm = 64, bn = 128, bk = 64, b_layout = col, c_layout = col, out = f32",
        "bm = 64, bn = 64, bk = 64, stages = 3, schedule = strided",
        "bm = 128, bn = 64, bk = 128, k_step = 32",
        "bm = 64, bn = 128, bk = 64, pdl = on",
        "bm = 128, bn = 64, bk = 64, permute = on",
        "bm = 64, bn = 128, bk = 64, split = auto",
        "bm = 64, bn = 64, bk = 32, split = 4",
        "bm = 128, bn = 128, bk = 128, split = 2, schedule = strided",
        "bm = 64, bn = 64, bk = 128, dtype = e4m3",
        "bm = 128, bn = 64, bk = 64, dtype = i8",
        "bm = 64, bn = 64, bk = 64, epilogue = \"|bias: Rows<f32>, alpha: f32| gelu(alpha * acc + bias)\"",
        "bm = 64, bn = 64, bk = 64, epilogue = \"|bias: Rows<f32>, res: Dense<f16>| (relu(acc + bias) + res, row_sum(acc))\"",
        "bm = 64, bn = 128, bk = 64, beta = on, split = 3",
    ];
    let of = |kind: &str| [2, 3].map(|pack| format!("{kind}, swap = off, pack = {pack}"));
    // Three block rows have fewer columns: the registers of three consumers.
    let fits = |spec: &String| {
        !(spec.contains("pack = 3") && (spec.contains("bn = 256") || spec.starts_with("bm = 128, bn = 128")))
    };
    let shape = (500, 330, 1100);
    let specs = kinds.iter().flat_map(|kind| of(kind)).filter(fits);
    specs.map(|spec| Case::new(&spec, shape, Pattern("powerlaw:0.4"))).collect()
}

fn shape_cases() -> Vec<Case> {
    ["bm = 64, bn = 32, bk = 64, swap = off, pack = 3", "bm = 128, bn = 128, bk = 64, swap = off, pack = 2"]
        .into_iter()
        .flat_map(shapes_around)
        .collect()
}

fn pattern_cases() -> Vec<Case> {
    let packed = [
        "bm = 64, bn = 64, bk = 32, swap = off, pack = 2",
        "bm = 64, bn = 32, bk = 64, swap = off, pack = 3, split = auto",
        "bm = 128, bn = 128, bk = 64, swap = off, pack = 2",
    ];
    let counted = packed.iter().flat_map(|text| tile_counts_of(text));
    packed.iter().flat_map(|text| patterns_of(text, (900, 70))).chain(counted).collect()
}

/// Clusters whose CTAs each load a part of every block row's tile, and multicast it.
fn cluster_cases() -> Vec<Case> {
    let clustered = [
        "bm = 64, bn = 256, bk = 64, swap = off, pack = 2, cluster = 2",
        "bm = 64, bn = 64, bk = 64, swap = off, pack = 3, cluster = 2, split = auto",
        "bm = 64, bn = 32, bk = 32, swap = off, pack = 2, cluster = 8",
        "bm = 64, bn = 64, bk = 112, swap = off, pack = 2, cluster = 4, out = f32",
        "bm = 128, bn = 64, bk = 128, swap = off, pack = 2, cluster = 2, split = 3",
        "bm = 128, bn = 128, bk = 64, swap = off, pack = 2, cluster = 2, schedule = strided, b_layout = col",
        "bm = 128, bn = 64, bk = 64, swap = off, pack = 3, cluster = 4, dtype = e4m3",
        "bm = 64, bn = 128, bk = 64, swap = off, pack = 2, cluster = 2, op = dds, transpose = on",
        "bm = 128, bn = 64, bk = 64, swap = off, pack = 2, cluster = 2, permute = on, pdl = on",
        "bm = 64, bn = 64, bk = 64, swap = off, pack = 3, cluster = 2, epilogue = \"|bias: Rows<f32>| (relu(acc + bias), row_sum(acc))\"",
    ];
    let shaped = clustered.iter().map(|spec| Case::new(spec, (500, 530, 1100), Pattern("powerlaw:0.4")));
    shaped.chain(patterns_of(clustered[0], (900, 700))).chain(patterns_of(clustered[1], (900, 330))).collect()
}
