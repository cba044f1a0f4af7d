//! Golden PTX, plans and refusals: a change of a template or of a decision shows here as a diff.
//!
//! Four whole kernels (the flagship, one of FP8, one with `split`, one with packed rows) and the module of list kernels;
//! for every axis of the grammar the one part of the kernel that it changes. `attention.rs` has three more whole
//! kernels, and `swap_ab.rs`, `sdd.rs`, `warp.rs` and `scalar.rs` have one each.

use std::fmt::Write;

use crate::golden::{golden, golden_refusals, paragraph, section};
use crate::planning::plan;
use bsr_codegen::solver::{Method, SolverModule};
use bsr_codegen::{Dtype, Problem};

const WHOLE: [&str; 4] = [
    "bm = 512, bn = 128, bk = 112",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3",
    "bm = 64, bn = 16, bk = 64, swap = off, split = auto",
    "bm = 64, bn = 16, bk = 64, swap = off, pack = 2",
];

/// The flagship, a square block, a tile split by columns with column-major B, gathered blocks with column-major f32, FP8.
const LAUNCHED: [&str; 5] = [
    WHOLE[0],
    "bm = 128, bn = 256, bk = 128",
    "bm = 64, bn = 256, bk = 64, dtype = bf16, b_layout = col",
    "bm = 128, bn = 256, bk = 32, out = f32, c_layout = col",
    WHOLE[1],
];

const ACCEPTED: [&str; 30] = [
    "bm = 64, bn = 256, bk = 64, swap = off, pack = 2",
    "bm = 128, bn = 16, bk = 128, split = auto, pdl = early",
    LAUNCHED[0],
    LAUNCHED[1],
    LAUNCHED[2],
    LAUNCHED[3],
    "bm = 64, bn = 16, bk = 16",
    "bm = 64, bn = 512, bk = 512",
    "bm = 192, bn = 128, bk = 96, consumers = 3",
    "bm = 192, bn = 64, bk = 16, cluster = 4",
    "bm = 256, bn = 128, bk = 48, swizzle = 64, b_layout = col",
    "bm = 320, bn = 256, bk = 80, out = bf16",
    "bm = 448, bn = 128, bk = 240, out = f32, b_layout = col, c_layout = col",
    "bm = 512, bn = 128, bk = 112, cluster = 1, consumers = 2, stages = 2, k_step = 112, swizzle = 32",
    "bm = 512, bn = 128, bk = 112, cluster = 2",
    "bm = 512, bn = 256, bk = 512, cluster = 8",
    "bm = 128, bn = 128, bk = 16, k_step = 128, schedule = strided",
    "bm = 512, bn = 128, bk = 112, dtype = e4m3",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, scale = block",
    "bm = 128, bn = 256, bk = 128, dtype = i8",
    "bm = 64, bn = 64, bk = 48, a = e4m3, b = e5m2, accumulate = promoted, out = e4m3",
    "bm = 112, bn = 128, bk = 512, transpose = on",
    "bm = 128, bn = 128, bk = 128, op = dds, out = f32",
    "bm = 128, bn = 128, bk = 24, op = dds, transpose = on",
    "bm = 128, bn = 256, bk = 40",
    "bm = 256, bn = 256, bk = 64, acc = f16",
    "bm = 256, bn = 512, bk = 64, acc = f16",
    "bm = 256, bn = 512, bk = 64, acc = f16, cta_m = 128, warps = (4, 2)",
    "bm = 512, bn = 128, bk = 112, cta_m = 128, warps = (4, 2), opt_level = 3",
    "bm = 128, bn = 256, bk = 64, acc = f16, swap = off, pack = 2",
];

const REFUSED: [&str; 62] = [
    "bm = 192, bn = 128, bk = 64, cta_m = 128",
    "bm = 128, bn = 128, bk = 64, warps = (2, 2)",
    "bm = 128, bn = 128, bk = 64, warps = (8, 1), consumers = 1",
    "bm = 128, bn = 16, bk = 64, warps = (4, 2)",
    "bm = 64, bn = 128, bk = 64, swap = off, pack = 2, cta_m = 64, warps = (4, 2)",
    "bm = 32, bn = 128, bk = 32, cta_m = 64, warps = (8, 1)",
    "bm = 128, bn = 128, bk = 64, op = sdd, cta_m = 64",
    "bm = 128, bn = 128, bk = 64, maxnreg = 128",
    "bm = 128, bn = 128, bk = 64, acc = f16, out = f32",
    "bm = 128, bn = 128, bk = 64, dtype = e4m3, acc = f16",
    "bm = 128, bn = 128, bk = 64, op = sdd, acc = f16",
    "bm = 100, bn = 128, bk = 112",
    "bm = 64, bn = 128, bk = 112, swap = off, pack = 4",
    "bm = 256, bn = 128, bk = 64, swap = off, pack = 2, cluster = 2",
    "bm = 128, bn = 256, bk = 64, swap = off, pack = 2",
    "bm = 32, bn = 128, bk = 32, split = auto, pdl = early",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = block, pdl = early",
    "bm = 16, bn = 128, bk = 112, swap = off",
    "bm = 2112, bn = 128, bk = 112",
    "bm = 512, bn = 128, bk = 113",
    "bm = 512, bn = 128, bk = 12",
    "bm = 512, bn = 128, bk = 2056",
    "bm = 512, bn = 8, bk = 112",
    "bm = 512, bn = 100, bk = 112",
    "bm = 512, bn = 1024, bk = 112",
    "bm = 100, bn = 100, bk = 100",
    "bm = 512, bn = 128, bk = 112, stages = 1",
    "bm = 512, bn = 128, bk = 112, stages = 9",
    "bm = 256, bn = 64, bk = 512, k_step = 128, stages = 3",
    "bm = 512, bn = 256, bk = 512, k_step = 512",
    "bm = 512, bn = 128, bk = 112, consumers = 4",
    "bm = 64, bn = 512, bk = 64, consumers = 1",
    "bm = 64, bn = 16, bk = 16, consumers = 3",
    "bm = 512, bn = 128, bk = 112, cluster = 3",
    "bm = 512, bn = 128, bk = 112, cluster = 16",
    "bm = 512, bn = 64, bk = 112, cluster = 2",
    "bm = 512, bn = 128, bk = 112, k_step = 40, swizzle = 48, stages = 1, cluster = 5",
    "bm = 64, bn = 64, bk = 48, k_step = 144",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, b_layout = row",
    "bm = 128, bn = 128, bk = 128, dtype = i8, b_layout = row, out = f16, scale = block",
    "bm = 128, bn = 128, bk = 120, dtype = e4m3",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, k_step = 48",
    "bm = 128, bn = 128, bk = 128, a = e4m3, b = f16",
    "bm = 128, bn = 128, bk = 128, dtype = f32",
    "bm = 128, bn = 128, bk = 128, out = i32",
    "bm = 128, bn = 128, bk = 128, accumulate = promoted",
    "bm = 128, bn = 128, bk = 128, accumulate = atomic",
    "bm = 128, bn = 128, bk = 128, scale = tensor",
    "bm = 128, bn = 128, bk = 128, dtype = i8, scale = tensor",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = block, accumulate = fast",
    "bm = 128, bn = 192, bk = 128, dtype = e4m3, scale = block",
    "bm = 128, bn = 512, bk = 128, dtype = e4m3, accumulate = promoted",
    "bm = 96, bn = 128, bk = 128, transpose = on, dtype = e4m3",
    "bm = 128, bn = 128, bk = 100, transpose = on",
    "bm = 100, bn = 128, bk = 128, op = dds",
    "bm = 128, bn = 128, bk = 128, op = dds, dtype = e4m3, a_layout = col",
    "bm = 128, bn = 128, bk = 128, op = dds, b_layout = col",
    "bm = 128, bn = 128, bk = 128, a_layout = col",
    "bm = 128, bn = 128, bk = 128, op = dds, transpose = on, dtype = e4m3, scale = row_col",
    "bm = 112, bn = 128, bk = 128, transpose = on, consumers = 1, cluster = 4",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = tensor, batch = on",
    "bm = 128, bn = 128, bk = 128, arch = sm_80, shape = m16n16k16, vector = 8",
];

#[test]
fn whole_kernels() {
    for text in WHOLE {
        let plan = plan(text);
        golden(&format!("whole_{}", file_name(text)), plan.ptx().text());
    }
}

/// The kernels that list work on the GPU.
#[test]
fn list_kernels() {
    golden("lists_whole", bsr_codegen::lists::ptx());
}

/// The vector kernels of a solver.
#[test]
fn solver_kernels() {
    let module = SolverModule::new(Method::Bicgstab, Dtype::F32, Some(3)).unwrap();
    golden("solver_bicgstab", &module.ptx());
    golden("solver_cg", &SolverModule::new(Method::Cg, Dtype::F64, None).unwrap().ptx());
    let gmres = Method::Gmres { restart: Method::RESTART };
    golden("solver_gmres", &SolverModule::new(gmres, Dtype::F64, Some(3)).unwrap().ptx());
}

/// How K is divided and who shares what is decided in the producer.
#[test]
fn producers() {
    for text in [
        "bm = 128, bn = 128, bk = 16",
        "bm = 128, bn = 128, bk = 48",
        "bm = 128, bn = 128, bk = 112",
        "bm = 128, bn = 128, bk = 240",
        "bm = 128, bn = 128, bk = 112, cluster = 2",
        "bm = 256, bn = 128, bk = 112, consumers = 1, cluster = 2",
        "bm = 128, bn = 128, bk = 16, cluster = 2",
        "bm = 128, bn = 128, bk = 64, b_layout = col",
        "bm = 128, bn = 128, bk = 64, swizzle = 32",
        "bm = 512, bn = 128, bk = 112, cluster = 2",
        "bm = 512, bn = 128, bk = 112, cluster = 2, b_layout = col",
        "bm = 128, bn = 128, bk = 112, dtype = e4m3",
        "bm = 128, bn = 128, bk = 64, dtype = e4m3, scale = block",
        "bm = 112, bn = 128, bk = 256, transpose = on",
        "bm = 24, bn = 128, bk = 128, transpose = on, b_layout = col, cluster = 2",
        "bm = 64, bn = 128, bk = 256, op = dds, consumers = 1, cluster = 2",
        "bm = 128, bn = 128, bk = 40, cluster = 2",
        "bm = 40, bn = 128, bk = 128, transpose = on, batch = on",
    ] {
        let ptx = plan(text).ptx();
        golden(&format!("producer_{}", file_name(text)), section(ptx.text(), "Producer"));
    }
}

/// The consumers of small tiles: gathered blocks whose column-major results are stored at the end of a tile, and a tile
/// split by columns whose results are stored while the next is multiplied.
#[test]
fn consumers() {
    for text in [
        "bm = 64, bn = 16, bk = 32, out = f32, c_layout = col",
        "bm = 64, bn = 64, bk = 64, dtype = bf16, b_layout = col, consumers = 2",
    ] {
        let ptx = plan(text).ptx();
        golden(&format!("consumers_{}", file_name(text)), section(ptx.text(), "Consumers"));
    }
}

/// Cluster, stages and roles are set up in the prologue.
#[test]
fn prologues() {
    for text in [
        "bm = 128, bn = 128, bk = 64",
        "bm = 128, bn = 128, bk = 64, cluster = 2",
        "bm = 512, bn = 128, bk = 64, cluster = 2",
        "bm = 128, bn = 128, bk = 64, stages = 2",
        "bm = 128, bn = 128, bk = 64, batch = on",
    ] {
        let ptx = plan(text).ptx();
        golden(&format!("prologue_{}", file_name(text)), section(ptx.text(), "Prologue"));
    }
}

/// Result type and layout of C decide how accumulators reach shared memory, and from there C.
#[test]
fn stagings() {
    for out in ["f16", "bf16", "f32", "e4m3"] {
        for c_layout in ["row", "col"] {
            let text = format!("bm = 128, bn = 128, bk = 64, out = {out}, c_layout = {c_layout}");
            let plan = plan(&text);
            let ptx = plan.ptx();
            let mut parts = paragraph(ptx.text(), "staging buffer of its warpgroup").to_owned();
            parts.push('\n');
            parts.push_str(paragraph(ptx.text(), "Registers to staging"));
            golden(&format!("staging_{out}_{c_layout}"), &parts);
        }
    }
}

/// Operand types, layouts and swizzles decide descriptors and instructions: their lines, without the accumulators.
#[test]
fn multiplies() {
    for text in [
        "bm = 64, bn = 64, bk = 32, k_step = 32",
        "bm = 64, bn = 64, bk = 32, k_step = 32, dtype = bf16",
        "bm = 64, bn = 64, bk = 32, k_step = 32, b_layout = col",
        "bm = 64, bn = 64, bk = 32, k_step = 32, b_layout = col, swizzle = 32",
        "bm = 64, bn = 64, bk = 16",
        "bm = 64, bn = 64, bk = 48",
        "bm = 128, bn = 64, bk = 32, consumers = 1",
        "bm = 64, bn = 256, bk = 32, consumers = 2",
        "bm = 64, bn = 64, bk = 112, dtype = e4m3",
        "bm = 64, bn = 64, bk = 128, a = e5m2, b = e4m3, accumulate = promoted",
        "bm = 64, bn = 64, bk = 64, dtype = i8",
        "bm = 32, bn = 64, bk = 128, transpose = on, k_step = 32",
        "bm = 32, bn = 64, bk = 128, transpose = on, k_step = 32, swizzle = 64, consumers = 1",
        "bm = 64, bn = 64, bk = 24, op = dds, transpose = on",
    ] {
        let ptx = plan(text).ptx();
        let lines: Vec<&str> = section(ptx.text(), "Consumers")
            .lines()
            .filter(|line| ["wgmma", "rd_a", "rd_b", "rd_desc"].iter().any(|w| line.contains(w)))
            .collect();
        golden(&format!("multiply_{}", file_name(text)), &(lines.join("\n") + "\n"));
    }
}

/// Factors are set up once and used at the end of a tile, or of every block.
#[test]
fn scales() {
    for (text, words) in [
        ("bm = 64, bn = 32, bk = 64, dtype = e4m3, scale = tensor", ["The factor of every", "One factor for"]),
        ("bm = 64, bn = 32, bk = 32, dtype = e4m3, scale = row_col", ["Factors of rows", "Factors of this thread"]),
        ("bm = 64, bn = 32, bk = 64, dtype = e4m3, scale = block", ["The factors of the ring", "The first stage of a"]),
        ("bm = 64, bn = 32, bk = 64, dtype = i8, out = f16", ["", "The tile's products are complete"]),
    ] {
        let ptx = plan(text).ptx();
        let parts: Vec<&str> = words.iter().filter(|w| !w.is_empty()).map(|w| paragraph(ptx.text(), w)).collect();
        golden(&format!("scale_{}", file_name(text)), &parts.join("\n"));
    }
}

#[test]
fn plans_accepted() {
    for text in ACCEPTED {
        let plan = plan(text);
        golden(&format!("plan_{}", file_name(text)), &format!("{}\n{}\n\n{plan}", plan.spec(), plan.summary()));
    }
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "plans_refused", &REFUSED);
}

/// The numbers that go to the driver, for a ragged problem.
#[test]
fn launches() {
    let problem = Problem { m: 1000, n: 999, k: 1001, nnzb: 17, lda: 1008, ldb: 1008, ldc: 1008, ldt: 1008 };
    let mut all = String::new();
    for text in LAUNCHED {
        let launch = plan(text).launch(&problem, [60, 1]);
        writeln!(all, "{text}\n{launch:#?}\n").expect("strings take all");
    }
    golden("launches", &all);
}

/// `bm = 64, bn = 256, bk = 64, b_layout = col` is `64x256x64_b_layout_col`.
fn file_name(text: &str) -> String {
    let mut parts = text.split(", ").map(|part| part.replace(" = ", "_").replace(['(', ')'], ""));
    let sizes: Vec<String> = parts.by_ref().take(3).map(|part| part[3..].to_owned()).collect();
    let rest: Vec<String> = parts.collect();
    [vec![sizes.join("x")], rest].concat().join("_")
}
