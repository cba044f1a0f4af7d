//! Products whose clusters share the K of tiles: `split = auto` and every tile in so many parts.

use bsr_runtime::schedule::WorkLists;

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::{simulate, simulate_table};

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn parts() {
    run_table("split K, parts", &part_cases());
}

#[test]
fn block_sizes() {
    run_table("split K, block sizes", &block_size_cases());
}

#[test]
fn kinds() {
    run_table("split K, kinds", &kind_cases());
}

#[test]
fn shapes_and_patterns() {
    run_table("split K, shapes and patterns", &[shape_cases(), pattern_cases()].concat());
}

#[test]
fn long_rows() {
    run_table("split K, long rows", &long_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

/// Long rows as they are: the small problems of the other tables have none.
#[test]
fn long_rows_simulated() {
    let cases = long_cases();
    for case in &cases {
        let (plan, structure) = (case.plan().expect("a plan"), case.structure().expect("a structure"));
        let lists = WorkLists::new(&plan, &structure, case.n, CLUSTERS);
        let place = plan.split_form().map_or(0, |form| form.partial_bytes as usize);
        assert!(lists.workspace >= 2 * place, "{case}: {} bytes of partial sums", lists.workspace);
    }
    simulate("split K, long rows", &cases, 7, CLUSTERS);
}

/// Clusters that share the long rows.
const CLUSTERS: u32 = 40;

#[test]
fn simulated() {
    simulate_table("split K", &all().concat(), 13);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![part_cases(), block_size_cases(), kind_cases(), long_cases(), shape_cases(), pattern_cases()]
}

/// Every number of parts, of rows that have fewer blocks and of rows that have many more.
fn part_cases() -> Vec<Case> {
    let parts = (2..=16).map(|parts| parts.to_string()).chain(["auto".to_owned()]);
    let case = |(i, parts): (usize, String)| {
        let sizes = ["bm = 64, bn = 32, bk = 64", "bm = 128, bn = 64, bk = 32", "bm = 128, bn = 16, bk = 128"];
        let spec = format!("{}, split = {parts}", sizes[i % sizes.len()]);
        Case::new(&spec, (900, 45, 3000), Blocks::Lengths(&[0, 1, 2, 5, 17, 40, 90]))
    };
    parts.enumerate().map(case).collect()
}

fn block_size_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (i, bm) in [64, 128, 192, 256, 512].into_iter().enumerate() {
        for (j, bk) in [8, 16, 40, 64, 96, 112, 128, 256, 512].into_iter().enumerate() {
            // Gathered blocks of 8 leave no registers beside 128 columns.
            let bn = [16, 32, 64, if bk == 8 { 64 } else { 128 }][(i + j) % 4];
            let split = ["auto", "2", "3", "8"][(i + 3 * j) % 4];
            let types = ["", ", dtype = bf16", ", out = f32"][(i + j) % 3];
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, split = {split}{types}");
            cases.push(Case::new(&spec, (2 * bm + 37, bn + 5, 11 * bk + 13), Pattern("random:0.7")));
        }
    }
    cases
}

/// Operations, layouts, clusters, schedules, 8-bit sums, epilogues, permuted rows.
fn kind_cases() -> Vec<Case> {
    let kinds = [
        "bm = 128, bn = 128, bk = 64, op = dds",
        "bm = 64, bn = 64, bk = 64, op = dds, transpose = on, c_layout = col",
        "bm = 64, bn = 64, bk = 128, transpose = on, out = f32",
        "bm = 128, bn = 64, bk = 64, b_layout = col, c_layout = col",
        "bm = 128, bn = 256, bk = 64, cluster = 2",
        "bm = 512, bn = 128, bk = 112, cluster = 2",
        "bm = 256, bn = 64, bk = 64, cluster = 4, schedule = strided",
        "bm = 64, bn = 64, bk = 64, consumers = 1, stages = 3",
        "bm = 192, bn = 192, bk = 48, consumers = 3",
        "bm = 128, bn = 64, bk = 32, k_step = 32",
        "bm = 128, bn = 128, bk = 128, pdl = on",
        "bm = 128, bn = 64, bk = 112, pdl = early",
        "bm = 128, bn = 128, bk = 64, permute = on",
        "bm = 128, bn = 128, bk = 128, dtype = e4m3",
        "bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted",
        "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = block",
        "bm = 64, bn = 64, bk = 64, dtype = e4m3, scale = row_col",
        "bm = 128, bn = 64, bk = 96, dtype = e4m3, scale = tensor, out = e4m3",
        "bm = 128, bn = 128, bk = 128, dtype = i8",
        "bm = 64, bn = 64, bk = 64, dtype = i8, out = f16",
        "bm = 128, bn = 64, bk = 64, epilogue = \"|bias: Rows<f32>, alpha: f32| gelu(alpha * acc + bias)\"",
        "bm = 128, bn = 64, bk = 64, epilogue = \"|bias: Rows<f32>, res: Dense<f16>| (relu(acc + bias) + res, row_sum(acc))\"",
        "bm = 64, bn = 128, bk = 64, op = dds, epilogue = \"|bias: Cols<f32>| (acc + bias, row_max(acc))\"",
        "bm = 128, bn = 128, bk = 64, beta = on",
    ];
    let of = |kind: &str| ["auto", "4"].map(|split| format!("{kind}, split = {split}"));
    let shape = (300, 330, 1100);
    kinds.iter().flat_map(|kind| of(kind)).map(|spec| Case::new(&spec, shape, Pattern("powerlaw:0.5"))).collect()
}

/// Rows much longer than others, and so large a K that L2 holds few columns of the dense factor.
fn long_cases() -> Vec<Case> {
    let kinds = [
        "bm = 64, bn = 16, bk = 64",
        "bm = 64, bn = 16, bk = 64, out = f32",
        "bm = 128, bn = 16, bk = 128, cluster = 2",
        "bm = 64, bn = 32, bk = 64, pack = 2, swap = off",
        "bm = 64, bn = 32, bk = 64, pack = 3, swap = off, cluster = 2",
        "bm = 512, bn = 16, bk = 112",
        "bm = 64, bn = 16, bk = 32, dtype = bf16, epilogue = \"|bias: Rows<f32>| (relu(acc + bias), row_sum(acc))\"",
        "bm = 32, bn = 64, bk = 32",
    ];
    let of = |kind: &&str| {
        let spec = format!("{kind}, split = long");
        let rows = &[4, 0, 140, 3, 1, 60, 2, 5, 9, 0, 1, 3, 2, 90, 4, 1, 2, 3];
        let case = Case::new(&spec, (1, 90, 153_600), Blocks::Lengths(rows));
        Case { m: rows.len() * case.spec.bm as usize - 5, ..case }
    };
    kinds.iter().map(of).collect()
}

fn shape_cases() -> Vec<Case> {
    ["bm = 64, bn = 32, bk = 64, split = 3", "bm = 128, bn = 256, bk = 64, cluster = 2, split = auto"]
        .into_iter()
        .flat_map(shapes_around)
        .collect()
}

fn pattern_cases() -> Vec<Case> {
    let split = [
        "bm = 64, bn = 64, bk = 16, split = auto",
        "bm = 128, bn = 16, bk = 64, split = 4",
        "bm = 128, bn = 128, bk = 64, split = auto",
    ];
    let counted = split.iter().flat_map(|text| tile_counts_of(text));
    split.iter().flat_map(|text| patterns_of(text, (900, 70))).chain(counted).collect()
}
