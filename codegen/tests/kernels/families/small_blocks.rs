//! The kernels of small blocks: their plans, refusals and text, and what ptxas makes of them.

use crate::golden::{golden_in, golden_refusals};
use crate::planning::plan;
use crate::ptxas;
use bsr_codegen::{Argument, IndexWidth, KernelSpec, Op, Plan, Problem, TileScheduler};

const ACCEPTED: [&str; 16] = [
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f64",
    "mma = scalar, bm = 3, bn = 1, bk = 6, a = f32, b = f64, b_layout = col, c_layout = col",
    "mma = scalar, bm = 8, bn = 16, bk = 8, dtype = f64",
    "mma = scalar, bm = 1, bn = 4, bk = 1, dtype = f32, lanes = 8",
    "mma = scalar, bm = 5, bn = 2, bk = 5, a = bf16, b = f32",
    "mma = scalar, bm = 8, bn = 16, bk = 8, dtype = f32, lanes = 32",
    "mma = scalar, bm = 3, bn = 2, bk = 5, dtype = f32, transpose = on, lanes = 16",
    "mma = scalar, bm = 3, bn = 2, bk = 3, dtype = f32, epilogue = \"|bias: Rows<f16>, s: f32| relu(acc * s + bias)\"",
    "mma = scalar, bm = 3, bn = 2, bk = 3, dtype = f32, c_layout = col, transpose = on, beta = on",
    "mma = scalar, bm = 5, bn = 1, bk = 5, a = f64, b = f32, arch = sm_75",
    "mma = scalar, bm = 3, bn = 2, bk = 3, a = f64, b = f32, out = f32",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f64, transpose = on, beta = on",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f64, epilogue = \"|x: Rows<f64>, y: Dense<f32>, s: f32| max(acc * s, x) / y\"",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f64, row_ptr = i64",
    "mma = scalar, bm = 1, bn = 1, bk = 1, dtype = f64, b_layout = col, c_layout = col, lanes = 1",
    "mma = scalar, bm = 3, bn = 2, bk = 5, a = bf16, b = f32, lanes = 1",
];

const REFUSED: [&str; 28] = [
    "mma = scalar, bm = 64, bn = 64, bk = 64, dtype = f32, row_ptr = i64",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, row_ptr = i64, transpose = on",
    "bm = 64, bn = 64, bk = 64, row_ptr = i64",
    "mma = scalar, bm = 64, bn = 64, bk = 64, dtype = f32, lanes = 32",
    "mma = scalar, bm = 3, bn = 4, bk = 3, dtype = f32, lanes = 1",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, lanes = 1, transpose = on, row_ptr = i64",
    "mma = scalar, bm = 3, bn = 1, bk = 3",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = i8",
    "mma = scalar, bm = 3, bn = 1, bk = 3, a = f64, b = f32, acc = f32",
    "mma = scalar, bm = 3, bn = 1, bk = 3, a = f64, b = f16",
    "mma = scalar, bm = 3, bn = 1, bk = 3, a = f32, b = f64, acc = f32",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, out = f16",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, lanes = 12",
    "mma = scalar, bm = 8, bn = 1, bk = 3, dtype = f32, lanes = 4",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, vector = 4, accumulate = atomic, schedule = strided",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f64, epilogue = \"|x: Rows<f64>| tanh(acc + x)\"",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, epilogue = \"|x: Rows<f64>| acc + x\"",
    "bm = 64, bn = 64, bk = 64, epilogue = \"|x: Cols<f64>| acc + x\"",
    "mma = scalar, bm = 64, bn = 64, bk = 64, transpose = on",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, beta = on, arch = sm_80",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, epilogue = \"|| (acc, row_max(acc))\"",
    "mma = scalar, bm = 3, bn = 1, bk = 3, dtype = f32, epilogue = \"|x: Dense<f32>, y: Dense<f32>| acc + x * y\"",
    "mma = scalar, bm = 64, bn = 64, bk = 64, beta = on",
    "mma = scalar, bm = 16, bn = 16, bk = 16, dtype = f64",
    "bm = 3, bn = 1, bk = 3, dtype = f64",
    "bm = 64, bn = 64, bk = 64, dtype = f64",
    "bm = 64, bn = 64, bk = 64, out = f64",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync, acc = f64",
];

const DTYPES: [&str; 9] = [
    "dtype = f64",
    "a = f32, b = f64",
    "a = f16, b = f64",
    "a = bf16, b = f64",
    "dtype = f32",
    "a = f16, b = f32",
    "a = bf16, b = f32",
    "a = f64, b = f32",
    "a = f64, b = f32, out = f32",
];
const SIDES: [(u32, u32); 14] =
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (3, 6), (6, 3), (1, 8), (8, 1), (2, 7), (5, 8)];
const CHOICES: [&str; 12] = [
    ", row_ptr = i64",
    ", row_ptr = i64, b_layout = col, c_layout = col, arch = sm_90a, lanes = 8",
    "",
    ", b_layout = col",
    ", lanes = 8",
    ", c_layout = col",
    ", arch = sm_90a",
    ", b_layout = col, c_layout = col, arch = sm_90a",
    ", lanes = 16, arch = sm_80",
    ", arch = sm_75",
    ", transpose = on",
    ", transpose = on, b_layout = col, arch = sm_90a",
];

/// What is fused where sums are f64.
const FUSED_IN_F64: [&str; 2] = [
    ", beta = on",
    ", c_layout = col, epilogue = \"|x: Dense<f16>, y: Rows<bf16>, z: Cols<f64>| max(sqrt(acc), z) * y / (x as f16)\"",
];

/// What is fused, of kernels whose sums are f32.
const FUSED: [&str; 3] = [
    ", beta = on",
    ", c_layout = col, epilogue = \"|x: Dense<f16>, y: Rows<bf16>, z: Cols<f32>| tanh(acc) * y + x * z\"",
    ", transpose = on, epilogue = \"|y: Rows<f32>, z: Cols<f16>, alpha: f32| gelu(alpha * acc + y) * z\"",
];

#[test]
fn plans_accepted() {
    let shown: Vec<String> = ACCEPTED.map(plan).iter().map(|plan| format!("{}\n{plan}", plan.spec())).collect();
    golden_in("snapshots/small_blocks", "plans_accepted", &shown.join("\n"));
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots/small_blocks", "plans_refused", &REFUSED);
}

/// Whole texts: a vector of f64, and several columns of narrower values.
#[test]
fn text() {
    golden_in("snapshots/small_blocks", "whole_vector_of_f64", plan(ACCEPTED[1]).ptx().text());
    golden_in("snapshots/small_blocks", "whole_two_columns", plan(ACCEPTED[4]).ptx().text());
    golden_in("snapshots/small_blocks", "whole_transposed", plan(ACCEPTED[6]).ptx().text());
    golden_in("snapshots/small_blocks", "whole_together", plan(ACCEPTED[14]).ptx().text());
}

/// Blocks that larger ones' kernels had before keep them, unless a spec asks for the others.
#[test]
fn recorded_kernels_stay_as_they_are() {
    let of = |text: &str| plan(&format!("mma = scalar, bm = 8, bn = 16, bk = 8{text}")).tile_scheduler();
    assert_eq!(of(""), TileScheduler::Static);
    assert_eq!(of(", dtype = f32"), TileScheduler::Static);
    assert_eq!(of(", dtype = f32, lanes = 32"), TileScheduler::BlockRows { rows: 8 });
    assert_eq!(of(", a = f16, b = f32"), TileScheduler::BlockRows { rows: 8 });
    assert_eq!(of(", dtype = f64"), TileScheduler::BlockRows { rows: 8 });
}

/// What a launch passes: block rows count up to the edge of the matrix.
#[test]
fn launches() {
    let problem = Problem { m: 1000, n: 5, k: 1001, nnzb: 17, lda: 0, ldb: 6, ldc: 8, ldt: 0 };
    let launch = plan("mma = scalar, bm = 3, bn = 4, bk = 3, dtype = f64, lanes = 8").launch(&problem, [11, 2]);
    assert_eq!((launch.grid, launch.block, launch.shared_bytes), ([11, 2], 256, 0));
    let number = |name: &str| launch.parameters.iter().find(|of| of.name == name).map(|of| of.argument);
    assert_eq!(number("block_rows"), Some(Argument::Number(334)));
    assert_eq!(number("row_ptr"), Some(Argument::RowPtr));
}

/// Row pointers are as wide as the number of blocks asks for, or as a spec says.
#[test]
fn row_pointers_count_the_blocks() {
    let spec: KernelSpec = ACCEPTED[0].parse().unwrap();
    let width = |spec: KernelSpec, blocks: u64| spec.counting(blocks).row_ptr;
    assert_eq!(width(spec, 1 << 31), IndexWidth::I32);
    assert_eq!(width(spec, (1 << 32) - 1), IndexWidth::I32);
    assert_eq!(width(spec, 1 << 32), IndexWidth::I64);
    assert_eq!(width(spec.row_ptr(IndexWidth::I64), 1), IndexWidth::I64);
    assert!(Plan::new(&spec.counting(1 << 40)).is_ok());
    // Others have no such pointers: their launches say what there are too many of.
    assert_eq!(width(spec.bm(9), 1 << 32), IndexWidth::I32);
    assert_eq!(width(spec.op(Op::Sdd), 1 << 32), IndexWidth::I32);
}

#[test]
fn every_kernel_assembles_without_spills() {
    ptxas::assemble_all(&plans(), "small_blocks");
}

/// Every type over every block and some numbers of columns, with the choices in turn.
fn plans() -> Vec<Plan> {
    let mut plans = vec![];
    for (i, (bm, bk)) in SIDES.into_iter().enumerate() {
        for (j, bn) in [1, 3, 4, 16].into_iter().enumerate() {
            for (d, dtype) in DTYPES.into_iter().enumerate() {
                // Every choice for every block, and one in three of all.
                if (i + j + d).is_multiple_of(3) {
                    let choice = CHOICES[(i + 3 * j + d) % CHOICES.len()];
                    plans.push(plan(&format!("mma = scalar, bm = {bm}, bn = {bn}, bk = {bk}, {dtype}{choice}")));
                }
                if (4..7).contains(&d) && (i + j + d).is_multiple_of(4) {
                    let fused = FUSED[(i + j + d) / 4 % FUSED.len()];
                    plans.push(plan(&format!("mma = scalar, bm = {bm}, bn = {bn}, bk = {bk}, {dtype}{fused}")));
                }
            }
        }
    }
    for (at, fused) in FUSED_IN_F64.into_iter().cycle().take(12).enumerate() {
        let (bn, dtype) = ([1, 4, 16][at % 3], ["dtype = f64", "a = bf16, b = f64", "a = f64, b = f32"][(at / 2) % 3]);
        let form = ["", ", transpose = on", ", lanes = 8", ", b_layout = col"][at % 4];
        plans.push(plan(&format!("mma = scalar, bm = 3, bn = {bn}, bk = 4, {dtype}{form}{fused}")));
    }
    // Blocks that are read together: every block and type, with a column and with two.
    for (i, (bm, bk)) in SIDES.into_iter().enumerate() {
        for (d, dtype) in DTYPES.into_iter().enumerate() {
            let bn = 1 + (i + d) % 2;
            let layouts = ["", ", b_layout = col, c_layout = col", ", b_layout = col"][(i + 2 * d) % 3];
            let arch = [", arch = sm_90a", "", ", arch = sm_75", ", arch = sm_80"][(i + d) % 4];
            plans.push(plan(&format!(
                "mma = scalar, bm = {bm}, bn = {bn}, bk = {bk}, {dtype}, lanes = 1{layouts}{arch}"
            )));
        }
    }
    for fused in [FUSED[0], FUSED[1]] {
        plans.push(plan(&format!("mma = scalar, bm = 3, bn = 2, bk = 4, dtype = f32, lanes = 1{fused}")));
    }
    for fused in FUSED_IN_F64 {
        plans.push(plan(&format!("mma = scalar, bm = 2, bn = 1, bk = 2, dtype = f64, lanes = 1{fused}")));
    }
    plans
}
