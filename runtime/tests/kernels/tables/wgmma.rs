//! Hopper's family on 16-bit operands.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn block_sizes() {
    run_table("block sizes", &block_size_cases());
}

#[test]
fn types_and_layouts() {
    run_table("types and layouts", &type_and_layout_cases());
}

#[test]
fn shapes() {
    run_table("shapes", &shape_cases());
}

#[test]
fn patterns() {
    run_table("patterns", &pattern_cases());
}

#[test]
fn tile_counts() {
    run_table("tile counts", &tile_count_cases());
}

#[test]
fn knobs() {
    run_table("knobs", &knob_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("wgmma", &all().concat(), 17);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![block_size_cases(), type_and_layout_cases(), shape_cases(), pattern_cases(), tile_count_cases(), knob_cases()]
}

/// Every class of block rows and of block columns, on shapes that are no multiples of anything.
fn block_size_cases() -> Vec<Case> {
    let kinds = [(128, ""), (64, ", dtype = bf16"), (96, ", out = f32"), (128, ", dtype = bf16, b_layout = col")];
    let bms = [64, 128, 192, 256, 320, 384, 448, 512];
    let mut cases = block_sizes_of(&bms, &[16, 32, 48, 64, 80, 96, 112, 128, 240, 512], &kinds);
    // No whole WGMMAs along K: padded with zeros.
    cases.extend(block_sizes_of(&bms, &[8, 24, 40, 56, 72, 104, 200, 504], &kinds));
    cases
}

/// Every operand type, result type and pair of layouts, on tiles that take each way of the epilogue and of the
/// stages.
fn type_and_layout_cases() -> Vec<Case> {
    let layouts = ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"];
    let mut cases = vec![];
    let mut add = |sizes: &str, types: &str, shape| {
        for layout in layouts {
            let spec = format!("{sizes}, {types}{layout}");
            cases.push(Case::new(&spec, shape, Pattern("random:0.4")));
        }
    };
    for a in ["f16", "bf16"] {
        for out in ["f16", "bf16", "f32"] {
            let types = format!("a = {a}, b = {a}, out = {out}");
            add("bm = 128, bn = 128, bk = 64", &types, (411, 333, 521));
        }
    }
    for types in ["dtype = f16", "out = f32"] {
        add("bm = 512, bn = 128, bk = 112", types, (1111, 300, 1001));
        add("bm = 512, bn = 128, bk = 112, cluster = 2", types, (1111, 300, 1001));
    }
    // Gathered blocks, a tile split by columns.
    for types in ["dtype = bf16", "dtype = bf16, out = f32"] {
        add("bm = 64, bn = 256, bk = 32", types, (333, 411, 521));
    }
    // Too many accumulators for a packed copy: 16-bit results stored at once.
    add("bm = 192, bn = 192, bk = 64, consumers = 3", "dtype = f16", (500, 411, 300));
    // Narrow tiles: narrow boxes and swizzles.
    add("bm = 64, bn = 16, bk = 16", "out = f32", (200, 49, 100));
    add("bm = 64, bn = 32, bk = 48", "dtype = bf16", (200, 97, 300));
    cases
}

/// M, N and K at and around the sizes of tiles and blocks, one at a time.
fn shape_cases() -> Vec<Case> {
    let specs = [
        "bm = 512, bn = 128, bk = 112",
        "bm = 64, bn = 64, bk = 16, dtype = bf16",
        "bm = 128, bn = 256, bk = 64, b_layout = col, c_layout = col",
        "bm = 128, bn = 128, bk = 32, out = f32",
        "bm = 64, bn = 128, bk = 64, cluster = 2, c_layout = col",
    ];
    let mut cases: Vec<Case> = specs.into_iter().flat_map(shapes_around).collect();
    // The flagship's ragged last block column.
    cases.push(Case::new(specs[0], (1024, 256, 8192), Pattern("topk:16")));
    cases
}

/// Empty rows, full rows, no blocks at all, rows around the 32 block columns that are fetched at a time.
fn pattern_cases() -> Vec<Case> {
    let specs = [
        ("bm = 64, bn = 128, bk = 16", (1000, 200)),
        ("bm = 64, bn = 64, bk = 64, dtype = bf16", (1000, 200)),
        ("bm = 512, bn = 128, bk = 112, cluster = 2", (4000, 130)),
        ("bm = 128, bn = 128, bk = 48, cluster = 2, out = f32", (1000, 300)),
        ("bm = 128, bn = 64, bk = 32, b_layout = col, c_layout = col", (1000, 200)),
    ];
    specs.into_iter().flat_map(|(text, shape)| patterns_of(text, shape)).collect()
}

/// Fewer tiles than multiprocessors, as many, many more; even and uneven rows; both schedules.
fn tile_count_cases() -> Vec<Case> {
    let specs = [
        "bm = 64, bn = 64, bk = 64",
        "bm = 64, bn = 64, bk = 64, schedule = strided, dtype = bf16",
        "bm = 128, bn = 64, bk = 32, cluster = 2, schedule = balanced",
        "bm = 512, bn = 64, bk = 64, b_layout = col, c_layout = col",
    ];
    let mut cases: Vec<Case> = specs.into_iter().flat_map(tile_counts_of).collect();
    let many = "bm = 64, bn = 64, bk = 64";
    cases.push(Case::new(many, (2048, 4096, 512), Pattern("random:0.2")));
    cases.push(Case::new(many, (4096, 1000, 512), Pattern("powerlaw:0.2")));
    cases
}

/// Every choice that a spec can take out of the plan's hands.
fn knob_cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |spec: String, shape| cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
    for cluster in [1, 2, 4, 8] {
        add(format!("bm = 512, bn = 256, bk = 64, cluster = {cluster}"), (1200, 300, 500));
        add(format!("bm = 64, bn = 64, bk = 64, cluster = {cluster}"), (300, 700, 500));
        add(format!("bm = 64, bn = 64, bk = 16, cluster = {cluster}"), (300, 700, 500));
        let layouts = "b_layout = col, c_layout = col, dtype = bf16";
        add(format!("bm = 512, bn = 128, bk = 48, cluster = {cluster}, {layouts}"), (1200, 300, 500));
        add(format!("bm = 2048, bn = 64, bk = 1000, cluster = {cluster}, {layouts}"), (2100, 130, 1500));
    }
    for stages in 2..=8 {
        add(format!("bm = 128, bn = 64, bk = 64, stages = {stages}"), (500, 300, 900));
    }
    for kind in [
        "bm = 128, bn = 16, bk = 128",
        "bm = 64, bn = 64, bk = 16, stages = 2",
        "bm = 512, bn = 128, bk = 112, cluster = 2",
        "bm = 64, bn = 256, bk = 64, cluster = 4",
        "bm = 64, bn = 64, bk = 128, transpose = on",
        "bm = 128, bn = 128, bk = 128, op = dds, c_layout = col",
        "bm = 128, bn = 128, bk = 128, dtype = e4m3, accumulate = promoted",
        "bm = 128, bn = 64, bk = 64, epilogue = \"|bias: Rows<f32>, res: Dense<f16>| relu(acc + bias) + res\"",
    ] {
        add(format!("{kind}, pdl = early"), (700, 300, 900));
    }
    for k_step in [16, 32, 48, 64, 80, 96, 112] {
        add(format!("bm = 128, bn = 128, bk = 112, k_step = {k_step}"), (500, 300, 900));
    }
    for k_step in [16, 32, 64, 128] {
        let layouts = "b_layout = col, out = f32";
        add(format!("bm = 64, bn = 128, bk = 16, k_step = {k_step}"), (300, 300, 333));
        add(format!("bm = 64, bn = 128, bk = 16, k_step = {k_step}, {layouts}"), (300, 300, 333));
    }
    for swizzle in [32, 64, 128] {
        for layout in ["row", "col"] {
            let rest = format!("swizzle = {swizzle}, b_layout = {layout}");
            add(format!("bm = 128, bn = 128, bk = 64, {rest}"), (500, 300, 500));
            add(format!("bm = 128, bn = 128, bk = 80, {rest}"), (500, 300, 500));
        }
    }
    for consumers in [1, 2, 3] {
        add(format!("bm = 192, bn = 64, bk = 64, consumers = {consumers}"), (500, 300, 500));
        add(format!("bm = 64, bn = 192, bk = 64, consumers = {consumers}, out = f32"), (300, 500, 500));
    }
    for tile in ["cta_m = 64", "cta_m = 128", "cta_m = 192", "warps = (8, 1)", "warps = (12, 1)", "warps = (4, 1)"] {
        add(format!("bm = 384, bn = 64, bk = 64, {tile}"), (800, 300, 500));
    }
    for tile in ["cta_m = 64, warps = (4, 2)", "cta_m = 128, warps = (4, 2)", "cta_m = 64, warps = (4, 3)"] {
        add(format!("bm = 384, bn = 192, bk = 64, {tile}"), (800, 500, 500));
        add(format!("bm = 384, bn = 192, bk = 64, {tile}, acc = f16, c_layout = col"), (800, 500, 500));
    }
    for level in 1..=4 {
        add(format!("bm = 128, bn = 64, bk = 64, opt_level = {level}"), (500, 300, 500));
    }
    for schedule in ["strided", "balanced"] {
        add(format!("bm = 64, bn = 128, bk = 64, schedule = {schedule}"), (1000, 3000, 500));
    }
    for bn in [16, 32, 64, 96, 160, 192, 256, 320, 384, 512] {
        add(format!("bm = 64, bn = {bn}, bk = 64"), (300, 600, 300));
        add(format!("bm = 64, bn = {bn}, bk = 64, b_layout = col, c_layout = col"), (300, 600, 300));
    }
    cases
}
