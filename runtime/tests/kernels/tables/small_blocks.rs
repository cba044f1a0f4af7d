//! The family of small blocks: sides of 1 to 8, vectors and up to 16 columns, f64 and mixed types.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of};

use Blocks::{Lengths, Pattern};

#[test]
fn small_block_sizes() {
    run_table("small block sizes", &size_cases());
}

#[test]
fn small_block_types() {
    run_table("small block types", &type_cases());
}

#[test]
fn small_block_shapes() {
    run_table("small block shapes", &shape_cases());
}

#[test]
fn small_block_patterns() {
    run_table("small block patterns", &pattern_cases());
}

#[test]
fn transposed_small_blocks() {
    run_table("transposed small blocks", &transposed_cases());
}

#[test]
fn fused_small_blocks() {
    run_table("fused small blocks", &fused_cases());
}

#[test]
fn fused_small_blocks_of_f64() {
    run_table("fused small blocks, sums of f64", &fused_in_f64_cases());
}

#[test]
fn small_blocks_read_together() {
    run_table("small blocks that a CTA reads together", &together_cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&all());
}

#[test]
fn simulated() {
    simulate_table("small blocks", &all().concat(), 1);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![
        size_cases(),
        type_cases(),
        shape_cases(),
        pattern_cases(),
        transposed_cases(),
        fused_cases(),
        fused_in_f64_cases(),
        together_cases(),
    ]
}

const SIDES: [(usize, usize); 12] =
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (3, 6), (6, 3), (1, 8), (8, 1)];
const TYPES: [&str; 9] = [
    "dtype = f64",
    "dtype = f32",
    "a = f64, b = f32, out = f32",
    "a = f64, b = f32",
    "a = f32, b = f64",
    "a = f16, b = f64",
    "a = bf16, b = f64",
    "a = f16, b = f32",
    "a = bf16, b = f32",
];

/// Every block with a vector and with 2, 3 and 16 columns, where rows and where columns of B are lines.
fn size_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (at, (bm, bk)) in SIDES.into_iter().enumerate() {
        for (turn, bn) in [1, 2, 3, 16].into_iter().enumerate() {
            let dtype = TYPES[(at + turn) % 2];
            let layouts = ["", ", b_layout = col", ", b_layout = col, c_layout = col"][(at + 2 * turn) % 3];
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = scalar, {dtype}{layouts}");
            let spec = if bn == 16 { format!("{spec}, lanes = 32") } else { spec };
            // Ragged in M and K; rows longer and shorter than a group has room for, and empty ones.
            let shape = (29 * bm - bm / 2, bn + turn % 2, 90 * bk - bk / 2);
            cases.push(Case::new(&spec, shape, Lengths(&[27, 0, 1, 90, 33, 64, 5])));
        }
    }
    cases
}

/// Values, vectors and sums of all types, by groups of every size.
fn type_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (at, dtype) in TYPES.into_iter().enumerate() {
        for (turn, (bm, bk)) in [(3_usize, 3), (4, 4), (8, 8), (2, 7), (1, 2), (4, 6)].into_iter().enumerate() {
            let lanes = [32, 16, 8, 4][(at + turn) % 4].max(bm.next_power_of_two());
            let (bn, layout) = [(1, "col"), (4, "row"), (7, "col"), (5, "row")][(at + 3 * turn) % 4];
            let spec =
                format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = scalar, {dtype}, lanes = {lanes}, b_layout = {layout}");
            cases.push(Case::new(&spec, (20 * bm + 1, bn, 40 * bk - 1), Pattern("random:0.4")));
        }
    }
    // Pointers of block rows of 64 bits.
    for (at, dtype) in TYPES.into_iter().enumerate() {
        let (bm, bk, lanes) = [(3, 3, 32), (4, 4, 8), (2, 7, 4), (8, 1, 16)][at % 4];
        let spec = format!("bm = {bm}, bn = 2, bk = {bk}, mma = scalar, {dtype}, lanes = {lanes}, row_ptr = i64");
        cases.push(Case::new(&spec, (20 * bm + 1, 3, 40 * bk - 1), Pattern("powerlaw:0.3")));
    }
    for arch in ["sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"] {
        let spec = format!("bm = 6, bn = 3, bk = 6, mma = scalar, a = bf16, b = f64, arch = {arch}");
        cases.push(Case::new(&spec, (301, 3, 307), Pattern("random:0.3")));
    }
    cases
}

/// Columns around those of a tile, and a matrix that is smaller than a block.
fn shape_cases() -> Vec<Case> {
    let mut cases = vec![];
    for spec in [
        "bm = 3, bn = 4, bk = 3, mma = scalar, dtype = f64",
        "bm = 8, bn = 6, bk = 4, mma = scalar, dtype = f32, b_layout = col, c_layout = col",
    ] {
        for (m, n, k) in [(1, 1, 1), (2, 3, 2), (40, 4, 50), (41, 5, 51), (100, 13, 100), (17, 64, 300)] {
            cases.push(Case::new(spec, (m, n, k), Pattern("random:0.7")));
        }
    }
    cases
}

fn pattern_cases() -> Vec<Case> {
    let mut cases = patterns_of("bm = 3, bn = 1, bk = 3, mma = scalar, dtype = f64, b_layout = col", (500, 1));
    cases.extend(patterns_of("bm = 5, bn = 4, bk = 4, mma = scalar, dtype = f32, lanes = 16", (500, 4)));
    cases
}

/// A^T B for every block, type, layout and group of threads, with block columns of many blocks, of one and of none.
fn transposed_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (at, (bm, bk)) in SIDES.into_iter().enumerate() {
        for (turn, bn) in [1, 3, 4, 16].into_iter().enumerate() {
            let dtype = TYPES[(at + 2 * turn) % TYPES.len()];
            let lanes = [32, 16, 8, 4][(at + turn) % 4].max(bk.next_power_of_two());
            let layouts =
                ["", ", b_layout = col", ", b_layout = col, c_layout = col", ", c_layout = col"][(at + 3 * turn) % 4];
            let spec = format!(
                "bm = {bm}, bn = {bn}, bk = {bk}, mma = scalar, {dtype}, lanes = {lanes}, transpose = on{layouts}"
            );
            // The rows of C are the columns of A as it is stored: both are ragged.
            let shape = (40 * bk - bk / 2, bn + turn % 2, 60 * bm - bm / 2);
            cases.push(Case::new(&spec, shape, Pattern(["random:0.3", "random:0.02", "powerlaw:0.1"][turn % 3])));
        }
    }
    cases.extend(patterns_of(
        "bm = 3, bn = 1, bk = 4, mma = scalar, dtype = f64, transpose = on, b_layout = col",
        (500, 1),
    ));
    cases
}

/// Every block, type and layout, with rows of more blocks than a turn of the CTA has, of few and of none.
fn together_cases() -> Vec<Case> {
    let mut cases = vec![];
    for (at, (bm, bk)) in SIDES.into_iter().enumerate() {
        for turn in 0..4 {
            let (bn, dtype) = (1 + turn % 2, TYPES[(at + 2 * turn) % TYPES.len()]);
            let layouts =
                ["", ", b_layout = col", ", b_layout = col, c_layout = col", ", c_layout = col"][(at + turn) % 4];
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = scalar, {dtype}, lanes = 1{layouts}");
            let lengths: &[usize] = if turn < 2 { &[27, 0, 1, 90, 33, 64, 5] } else { &[1300, 0, 3, 0, 700, 27] };
            // Ragged in M, N and K, with more block rows than a CTA has.
            let shape = (150 * bm - bm / 2, bn + turn / 2, if turn < 2 { 90 } else { 1300 } * bk - bk / 2);
            let shape = if turn < 2 { shape } else { (6 * bm, shape.1, shape.2) };
            cases.push(Case::new(&spec, shape, Lengths(lengths)));
        }
    }
    for epilogue in [
        "dtype = f32, beta = on",
        "dtype = f64, epilogue = \"|x: Dense<f64>, y: Rows<f32>, alpha: f32| alpha * acc + x * y\"",
        "a = f16, b = f32, epilogue = \"|x: Rows<bf16>, y: Cols<f16>, z: f32| acc * x + y * z\"",
    ] {
        for (bm, bn, bk) in [(1, 1, 1), (3, 2, 3), (5, 1, 7)] {
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = scalar, lanes = 1, {epilogue}");
            cases.push(Case::new(&spec, (401, bn + 1, 203), Pattern("random:0.2")));
        }
    }
    cases.extend(patterns_of("bm = 2, bn = 1, bk = 2, mma = scalar, dtype = f64, lanes = 1", (500, 1)));
    cases.extend(patterns_of("bm = 1, bn = 2, bk = 1, mma = scalar, dtype = f32, lanes = 1", (500, 2)));
    for arch in ["sm_70", "sm_75", "sm_80", "sm_90a", "sm_120"] {
        let spec = format!("bm = 3, bn = 1, bk = 3, mma = scalar, dtype = f64, lanes = 1, arch = {arch}");
        cases.push(Case::new(&spec, (301, 1, 307), Pattern("random:0.3")));
    }
    cases
}

/// The forms of small blocks that take an epilogue.
const FUSED_FORMS: [&str; 5] =
    ["lanes = 16", "transpose = on", "b_layout = col", "transpose = on, c_layout = col", "c_layout = col"];

/// Vectors by rows and columns, scalars, a full operand and what C held, in every form, layout and number of columns.
fn fused_cases() -> Vec<Case> {
    let epilogues = [
        "beta = on",
        "epilogue = \"|bias: Rows<f32>| relu(acc + bias)\"",
        "epilogue = \"|x: Rows<bf16>, y: Cols<f16>, z: f32| acc * x + y * z\"",
        "epilogue = \"|x: Dense<f32>, alpha: f32| alpha * acc + x\"",
        "epilogue = \"|x: Dense<f16>, y: Rows<f16>| tanh(acc) * y + x\"",
        "epilogue = \"|| gelu(acc)\"",
    ];
    let mut cases = vec![];
    for (at, epilogue) in epilogues.into_iter().enumerate() {
        for (turn, form) in FUSED_FORMS.into_iter().enumerate() {
            let (bm, bk) = SIDES[(2 * at + turn) % SIDES.len()];
            let (bn, dtype) = ([1, 4, 2, 3][(at + turn) % 4], ["dtype = f32", "a = f16, b = f32"][turn % 2]);
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = scalar, {dtype}, {form}, {epilogue}");
            // Ragged in every extent, as the kernel reads the blocks.
            cases.push(Case::new(&spec, (101, bn + 1, 203), Pattern("random:0.2")));
        }
    }
    cases
}

/// The same of sums of f64: every type of operand, and all that an epilogue can compute of f64.
fn fused_in_f64_cases() -> Vec<Case> {
    let epilogues = [
        "beta = on",
        "epilogue = \"|bias: Rows<f64>| relu(acc + bias)\"",
        "epilogue = \"|x: Rows<bf16>, y: Cols<f16>, z: f32, w: Cols<f32>| acc * x + y * z - w\"",
        "epilogue = \"|x: Dense<f64>, alpha: f32| alpha * acc + x\"",
        "epilogue = \"|x: Dense<f32>, y: Rows<f64>| min(sqrt(abs(acc)), y) / (2.0 + abs(x))\"",
        "epilogue = \"|x: Cols<f64>| if acc < x { floor(acc) } else { rsqrt(1.0 + abs(acc)) / (1.0 + abs(x)) }\"",
        "epilogue = \"|| (acc as f16) * 0.1 + (acc as bf16)\"",
    ];
    let mut cases = vec![];
    for (at, epilogue) in epilogues.into_iter().enumerate() {
        for (turn, form) in FUSED_FORMS.into_iter().enumerate() {
            let (bm, bk) = [(3, 3), (2, 2), (5, 4), (1, 7), (6, 3)][(2 * at + turn) % 5];
            let bn = [1, 4, 2, 3][(at + turn) % 4];
            let dtype = ["dtype = f64", "a = f32, b = f64", "a = f64, b = f32, out = f64"][(at + turn) % 3];
            let spec = format!("bm = {bm}, bn = {bn}, bk = {bk}, mma = scalar, {dtype}, {form}, {epilogue}");
            cases.push(Case::new(&spec, (101, bn + 1, 203), Pattern("random:0.2")));
        }
    }
    cases
}
