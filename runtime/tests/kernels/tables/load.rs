//! Warps that only load, by `cp.async` and by TMA: types, layouts, blocks, rings that go round several times, ends, patterns.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn loads_by_cp_async() {
    run_table("loads by cp.async of warps of their own", &cases("producer"));
}

#[test]
fn loads_by_tma() {
    run_table("loads by TMA", &cases("tma"));
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("loads by cp.async of warps of their own", &cases("producer"), 29);
}

#[test]
fn simulated_tma() {
    simulate_table("loads by TMA", &cases("tma"), 3);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![cases("producer"), cases("tma")]
}

/// The instructions, with the other types of each.
const FAMILIES: [(&str, &[&str]); 2] = [
    ("mma = mma_sync", &["dtype = f16", "dtype = bf16, out = f32", "dtype = e4m3", "dtype = i8", "acc = f16"]),
    ("mma = wmma", &["dtype = f16", "dtype = bf16, out = f32", "acc = f16"]),
];

fn cases(load: &str) -> Vec<Case> {
    let mut cases = vec![];
    let arch = if load == "tma" { "sm_90a" } else { "sm_80" };
    let takes = |family: &str| load != "tma" || family != "mma = wmma";
    for (family, types) in FAMILIES.into_iter().filter(|(family, _)| takes(family)) {
        let mut add = |sizes: &str, rest: &str, shape| {
            let spec = format!("{sizes}, {family}, load = {load}{rest}");
            cases.push(Case::new(&spec, shape, Pattern("random:0.5")));
        };
        for dtype in types {
            for layouts in ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"] {
                let is_narrow = dtype.contains('8') || dtype.contains("e4m3");
                if !is_narrow || layouts.contains("b_layout") {
                    add("bm = 64, bn = 96, bk = 64", &format!(", {dtype}{layouts}"), (211, 133, 301));
                }
            }
        }
        // Blocks that share a stage, that are one, and that take several, of which the last is shorter.
        for bk in [16, 32, 48, 64, 80, 112, 144, 256] {
            for layout in ["row", "col"] {
                add(&format!("bm = 32, bn = 64, bk = {bk}"), &format!(", b_layout = {layout}"), (101, 69, 3 * bk + 7));
            }
        }
        for (bm, bn) in [(16, 16), (48, 48), (96, 80), (112, 128), (256, 64), (512, 32)] {
            add(&format!("bm = {bm}, bn = {bn}, bk = 32"), "", (2 * bm + 5, 2 * bn - 3, 160));
        }
        for (warps, bn) in
            [("(1, 4)", 128), ("(2, 2)", 128), ("(2, 4)", 256), ("(4, 2)", 64), ("(4, 1)", 32), ("(1, 3)", 96)]
        {
            add(&format!("bm = 64, bn = {bn}, bk = 64"), &format!(", warps = {warps}"), (300, 301, 400));
        }
        // Rings that go round more than three times, in each number of stages.
        for stages in [2, 3, 5, 8] {
            add("bm = 32, bn = 32, bk = 32", &format!(", stages = {stages}, k_step = 32"), (97, 65, 1800));
        }
        for (bk, k_step) in [(16, 32), (16, 64), (32, 128), (64, 16), (96, 48), (128, 128)] {
            for layout in ["row", "col"] {
                let rest = format!(", k_step = {k_step}, b_layout = {layout}");
                add(&format!("bm = 32, bn = 48, bk = {bk}"), &rest, (111, 69, 5 * bk));
            }
        }
        for rest in ["schedule = strided", "cta_m = 16", "opt_level = 2", "arch = sm_90a", &format!("arch = {arch}")] {
            add("bm = 64, bn = 64, bk = 64", &format!(", {rest}"), (300, 133, 500));
        }
        if family.contains("wmma") {
            for shape in ["m32n8k16", "m8n32k16"] {
                for layout in ["row", "col"] {
                    add(
                        "bm = 64, bn = 64, bk = 48",
                        &format!(", shape = {shape}, b_layout = {layout}"),
                        (133, 99, 300),
                    );
                }
            }
        }
        let text = format!("bm = 64, bn = 64, bk = 32, {family}, load = {load}");
        cases.extend(shapes_around(&text));
        cases.extend(patterns_of(&format!("bm = 32, bn = 32, bk = 48, {family}, load = {load}"), (300, 70)));
        cases.extend(tile_counts_of(&text));
    }
    if load == "producer" {
        for rest in ["dtype = f64", "dtype = f64, b_layout = col", "dtype = f32, tf32 = on"] {
            let spec = format!("bm = 64, bn = 64, bk = 48, mma = mma_sync, load = producer, {rest}");
            cases.push(Case::new(&spec, (211, 133, 301), Pattern("random:0.5")));
        }
    }
    for rest in [
        "dtype = e4m3, scale = tensor",
        "dtype = e5m2, scale = row_col, out = f32",
        "dtype = i8, scale = row_col, out = f16",
    ] {
        for layout in ["row", "col"] {
            let spec = format!("bm = 64, bn = 64, bk = 64, mma = mma_sync, load = {load}, {rest}, c_layout = {layout}");
            cases.push(Case::new(&spec, (211, 133, 301), Pattern("random:0.5")));
        }
    }
    for rest in ["dtype = f32, tf32 = on, b_layout = col", "dtype = f32, tf32 = on, b_layout = col, out = f16"] {
        let spec = format!("bm = 64, bn = 64, bk = 48, mma = mma_sync, load = {load}, {rest}");
        cases.push(Case::new(&spec, (211, 133, 301), Pattern("random:0.5")));
    }
    cases
}
