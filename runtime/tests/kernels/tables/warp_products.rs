//! `mma_sync` and `wmma`: transposed blocks, a sparse right factor, and K that CTAs share. Lists of problems are in `batch`.

use bsr_runtime::schedule::WorkLists;

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::{simulate, simulate_table};

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn transposed() {
    run_table("mma_sync and wmma, A transposed", &turned_cases("transpose = on"));
}

#[test]
fn sparse_right_factors() {
    run_table("mma_sync and wmma, B sparse", &[turned_cases("op = dds"), upright_cases()].concat());
}

#[test]
fn divided() {
    run_table("mma_sync and wmma, split K", &[divided_cases(), long_cases()].concat());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated_transposed() {
    simulate_table("mma_sync and wmma, A transposed", &turned_cases("transpose = on"), 7);
}

#[test]
fn simulated_sparse_right_factors() {
    simulate_table("mma_sync and wmma, B sparse", &[turned_cases("op = dds"), upright_cases()].concat(), 7);
}

#[test]
fn simulated_divided() {
    simulate_table("mma_sync and wmma, split K", &divided_cases(), 5);
}

/// Long rows as they are: the small problems of the other tables have none.
#[test]
fn simulated_long_rows() {
    let cases = long_cases();
    for case in &cases {
        let (plan, structure) = (case.plan().expect("a plan"), case.structure().expect("a structure"));
        let along = if case.spec.op == bsr_codegen::Op::Dds { case.m } else { case.n };
        let lists = WorkLists::new(&plan, &structure, along, CLUSTERS);
        let place = plan.split_form().map_or(0, |form| form.partial_bytes as usize);
        assert!(lists.workspace >= 2 * place, "{case}: {} bytes of partial sums", lists.workspace);
    }
    simulate("mma_sync and wmma, long rows", &cases, 3, CLUSTERS);
}

/// CTAs that share the long rows.
const CLUSTERS: u32 = 40;

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![turned_cases("transpose = on"), turned_cases("op = dds"), upright_cases(), divided_cases(), long_cases()]
}

const FAMILIES: [&str; 2] = ["mma = mma_sync", "mma = wmma"];

fn case(spec: &str, (rows, columns, k): (usize, usize, usize), blocks: Blocks) -> Case {
    let shape = super::shape_of(&super::parse(spec), (rows, columns, k));
    Case::new(spec, shape, blocks)
}

/// Rows of the sparse factor, as they are multiplied, are contiguous in its blocks: `turn` says of which product.
fn turned_cases(turn: &str) -> Vec<Case> {
    let mut cases = vec![];
    for family in FAMILIES {
        let mut add = |sizes: &str, rest: &str, shape| {
            cases.push(case(&format!("{sizes}, {family}, {turn}{rest}"), shape, Pattern("random:0.5")));
        };
        let dense = if turn.contains("dds") { "a_layout" } else { "b_layout" };
        for dtype in ["dtype = f16", "dtype = bf16", "dtype = bf16, out = f32", "acc = f16"] {
            for layouts in ["", ", c_layout = col"] {
                for layout in ["row", "col"] {
                    add(
                        "bm = 64, bn = 96, bk = 64",
                        &format!(", {dtype}, {dense} = {layout}{layouts}"),
                        (211, 133, 301),
                    );
                }
            }
        }
        // Blocks that share a stage, that are one, and that take several, of which the last is shorter.
        for depth in [16, 32, 48, 64, 80, 112, 144, 256] {
            let sizes = format!("bm = {depth}, bn = 64, bk = 32");
            add(&sizes, "", (101, 69, 3 * depth + 7));
            add(&sizes, ", out = f32", (32, 64, 4 * depth));
        }
        for (rows, bn) in [(16, 16), (48, 48), (96, 80), (112, 128), (256, 64), (512, 32)] {
            add(&format!("bm = 32, bn = {bn}, bk = {rows}"), "", (2 * rows + 5, 2 * bn - 3, 160));
        }
        for (warps, bn) in [("(1, 4)", 128), ("(2, 2)", 128), ("(4, 1)", 64), ("(2, 4)", 256), ("(1, 1)", 32)] {
            add(&format!("bm = 64, bn = {bn}, bk = 64"), &format!(", warps = {warps}"), (300, 301, 400));
        }
        for (depth, k_step) in [(16, 32), (16, 64), (32, 128), (64, 16), (96, 48), (128, 128)] {
            add(&format!("bm = {depth}, bn = 48, bk = 96"), &format!(", k_step = {k_step}"), (211, 69, 5 * depth));
        }
        for rest in
            [", stages = 2", ", stages = 5, k_step = 32", ", schedule = strided", ", cta_m = 32", ", arch = sm_90a"]
        {
            add("bm = 64, bn = 64, bk = 64", rest, (300, 133, 900));
        }
        for rest in ["", ", warps = (2, 2)", ", stages = 3, k_step = 32"] {
            add("bm = 64, bn = 64, bk = 64", &format!(", load = producer{rest}"), (300, 133, 500));
        }
        add("bm = 64, bn = 64, bk = 64", ", beta = on", (211, 133, 301));
        let bias = if turn.contains("dds") { "Cols" } else { "Rows" };
        let epilogue = format!(", epilogue = \"|bias: {bias}<f32>, res: Dense<f16>| relu(acc + bias) + res\"");
        add("bm = 64, bn = 64, bk = 64", &epilogue, (211, 133, 301));
        add("bm = 64, bn = 64, bk = 64", &format!("{epilogue}, c_layout = col"), (211, 133, 301));
        if family.contains("wmma") {
            for arch in ["sm_70", "sm_75"] {
                add("bm = 64, bn = 64, bk = 48", &format!(", arch = {arch}"), (133, 99, 300));
                add("bm = 16, bn = 64, bk = 48", &format!(", arch = {arch}"), (133, 99, 100));
            }
            for shape in ["m32n8k16", "m8n32k16"] {
                add("bm = 48, bn = 64, bk = 64", &format!(", shape = {shape}"), (133, 99, 300));
            }
        } else {
            for rest in ["", ", out = f32", ", warps = (4, 2)", ", c_layout = col", ", k_step = 32"] {
                add("bm = 64, bn = 96, bk = 192", &format!(", load = tma{rest}"), (403, 133, 500));
            }
            for depth in [16, 32, 80, 112] {
                add(&format!("bm = {depth}, bn = 64, bk = 48"), ", load = tma", (101, 69, 3 * depth + 7));
            }
        }
        let text = format!("bm = 32, bn = 64, bk = 64, {family}, {turn}");
        cases.extend(shapes_around(&text));
        cases.extend(tile_counts_of(&text));
        cases.extend(patterns_of(&format!("bm = 32, bn = 32, bk = 48, {family}, {turn}"), (300, 70)));
    }
    cases
}

/// A sparse right factor whose blocks are stored transposed is read as it is stored, in every type.
fn upright_cases() -> Vec<Case> {
    let mut cases = vec![];
    for family in FAMILIES {
        let mut add = |sizes: &str, rest: &str, shape| {
            let spec = format!("{sizes}, {family}, op = dds, transpose = on{rest}");
            cases.push(case(&spec, shape, Pattern("random:0.5")));
        };
        for dtype in ["dtype = f16", "dtype = bf16, out = f32"] {
            for layouts in ["", ", a_layout = col", ", c_layout = col", ", a_layout = col, c_layout = col"] {
                add("bm = 64, bn = 96, bk = 48", &format!(", {dtype}{layouts}"), (211, 133, 301));
            }
        }
        if family.contains("mma_sync") {
            for dtype in [
                "dtype = e4m3",
                "a = e4m3, b = e5m2",
                "dtype = i8",
                "dtype = f64",
                "dtype = f32, tf32 = on",
                "acc = f16",
            ] {
                for layout in ["row", "col"] {
                    add("bm = 64, bn = 64, bk = 64", &format!(", {dtype}, c_layout = {layout}"), (211, 133, 301));
                }
            }
            for dtype in ["dtype = f64", "dtype = f32, tf32 = on"] {
                add("bm = 64, bn = 64, bk = 64", &format!(", {dtype}, a_layout = col"), (211, 133, 301));
            }
            for rest in [", load = tma", ", load = producer", ", dtype = e4m3, scale = tensor", ", beta = on"] {
                add("bm = 64, bn = 64, bk = 64", rest, (211, 133, 301));
            }
        }
        cases.extend(shapes_around(&format!("bm = 64, bn = 64, bk = 32, {family}, op = dds, transpose = on")));
    }
    cases
}

/// Every way of saying that K is divided, of every kind of sums.
fn divided_cases() -> Vec<Case> {
    let mut cases = vec![];
    for family in FAMILIES {
        let mut add = |sizes: &str, rest: &str, shape| {
            cases.push(case(&format!("{sizes}, {family}{rest}"), shape, Pattern("random:0.7")));
        };
        for split in ["2", "3", "5", "16", "auto", "long"] {
            add("bm = 32, bn = 64, bk = 32", &format!(", split = {split}"), (101, 69, 700));
        }
        for rest in [
            "dtype = bf16",
            "out = f32, c_layout = col",
            "acc = f16",
            "b_layout = col",
            "transpose = on",
            "op = dds",
            "op = dds, transpose = on",
            "load = producer",
            "beta = on",
            "schedule = strided",
            "warps = (2, 2)",
        ] {
            add("bm = 64, bn = 64, bk = 64", &format!(", split = 3, {rest}"), (203, 133, 900));
        }
        if family.contains("mma_sync") {
            for rest in ["dtype = e4m3", "dtype = i8", "dtype = f64", "dtype = f32, tf32 = on", "load = tma"] {
                add("bm = 64, bn = 64, bk = 64", &format!(", split = 3, {rest}"), (203, 133, 900));
            }
            add("bm = 64, bn = 64, bk = 64", ", split = 2, load = tma, transpose = on", (203, 133, 900));
        } else {
            add("bm = 64, bn = 64, bk = 64", ", split = 3, arch = sm_70", (203, 133, 900));
        }
        cases.extend(shapes_around(&format!("bm = 32, bn = 64, bk = 32, {family}, split = 2")));
        cases.extend(patterns_of(&format!("bm = 32, bn = 32, bk = 48, {family}, split = 3"), (300, 70)));
    }
    cases
}

fn long_cases() -> Vec<Case> {
    let mut cases = vec![];
    for rest in [
        "mma = mma_sync, split = auto",
        "mma = mma_sync, split = long",
        "mma = mma_sync, split = 4, transpose = on",
        "mma = mma_sync, split = auto, op = dds",
        "mma = mma_sync, split = 7, load = producer",
        "mma = mma_sync, split = 3, load = tma",
        "mma = wmma, split = auto",
        "mma = wmma, split = 5, transpose = on",
    ] {
        cases.push(case(&format!("bm = 32, bn = 64, bk = 32, {rest}"), (96, 100, 3200), Blocks::FullRows(&[1])));
        cases.push(case(&format!("bm = 32, bn = 32, bk = 32, {rest}"), (130, 70, 2400), Blocks::Lengths(&[70, 0, 3])));
    }
    cases
}
