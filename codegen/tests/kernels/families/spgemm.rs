//! The kernels of two block-sparse factors: their plans, refusals and text, and what ptxas makes of them.

use crate::golden::{added, golden, golden_refusals, section};
use crate::planning::{joined, plan, try_plan};
use crate::ptxas;
use bsr_codegen::{Argument, Plan, Problem};

const BLOCKS: [(u32, u32, u32); 14] = [
    (128, 128, 128),
    (64, 64, 64),
    (128, 64, 32),
    (256, 128, 64),
    (512, 128, 112),
    (192, 96, 96),
    (64, 16, 16),
    (128, 256, 128),
    (64, 256, 40),
    (320, 192, 80),
    (256, 32, 24),
    (128, 512, 64),
    (448, 64, 240),
    (64, 384, 512),
];

const TYPES: [&str; 4] = ["", "dtype = bf16", "out = f32", "dtype = bf16, out = f32"];

const KNOBS: [&str; 9] = [
    "",
    "stages = 2",
    "consumers = 1, cluster = 2",
    "split = auto",
    "pdl = on",
    "k_step = 32",
    "pdl = early, schedule = strided",
    "cluster = 4",
    "split = 3, swizzle = 64",
];

/// B in blocks that are stored column by column.
const BY_COLUMNS: [&str; 17] = [
    "op = dss, bm = 128, bn = 128, bk = 128, dtype = e4m3",
    "op = sss, bm = 128, bn = 128, bk = 128, dtype = e4m3, out = f16",
    "op = dss, bm = 64, bn = 64, bk = 64, dtype = e5m2, out = f32",
    "op = sss, bm = 64, bn = 64, bk = 32, a = e4m3, b = e5m2",
    "op = sss, bm = 128, bn = 256, bk = 16, dtype = e4m3, accumulate = promoted",
    "op = dss, bm = 128, bn = 256, bk = 32, dtype = e4m3, accumulate = promoted",
    "op = dss, bm = 256, bn = 96, bk = 48, dtype = e4m3, scale = row_col",
    "op = sss, bm = 512, bn = 256, bk = 208, dtype = e4m3, cluster = 2",
    "op = sss, bm = 128, bn = 64, bk = 64, dtype = e4m3, scale = tensor, split = 3",
    "op = dss, bm = 128, bn = 128, bk = 128, dtype = e4m3, pack = 2",
    "op = sss, bm = 64, bn = 64, bk = 64, dtype = e4m3, pack = 4",
    "op = dss, bm = 64, bn = 64, bk = 96, dtype = e4m3, pack = 3, out = f32, pdl = on",
    "op = dss, bm = 64, bn = 64, bk = 128, dtype = e4m3, epilogue = \"|bias: Cols<f32>| relu(acc + bias)\"",
    "op = dss, bm = 64, bn = 64, bk = 64, dtype = i8, scale = row_col, out = f16",
    "op = dss, bm = 128, bn = 64, bk = 32, dtype = f32, tf32 = on, b_layout = col",
    "op = dss, bm = 128, bn = 128, bk = 40, b_layout = col, pdl = early",
    "op = sss, bm = 64, bn = 64, bk = 64, dtype = bf16, b_layout = col, pack = 4",
];

/// Tiles of several blocks of C.
const SHARED: [&str; 16] = [
    "op = sss, bm = 64, bn = 64, bk = 64, pack = 4",
    "op = sss, bm = 64, bn = 64, bk = 64, pack = 4, out = f32, dtype = bf16",
    "op = dss, bm = 128, bn = 128, bk = 128, pack = 2",
    "op = sss, bm = 128, bn = 128, bk = 128, pack = 2",
    "op = dss, bm = 64, bn = 64, bk = 64, pack = 2",
    "op = dss, bm = 64, bn = 64, bk = 64, pack = 3",
    "op = dss, bm = 64, bn = 64, bk = 64, pack = 4",
    "op = sss, bm = 64, bn = 64, bk = 64, pack = 2, dtype = bf16",
    "op = sss, bm = 64, bn = 128, bk = 64, pack = 3, pdl = on",
    "op = dss, bm = 64, bn = 64, bk = 96, pack = 4, dtype = bf16, out = f32",
    "op = dss, bm = 64, bn = 64, bk = 32, pack = 4, stages = 3, swizzle = 64",
    "op = dss, bm = 64, bn = 256, bk = 32, pack = 2, out = f32",
    "op = dss, bm = 128, bn = 64, bk = 80, pack = 2, schedule = strided, k_step = 48",
    "op = dss, bm = 64, bn = 64, bk = 64, pack = 4, c_layout = col",
    "op = dss, bm = 64, bn = 64, bk = 64, pack = 4, beta = on",
    "op = sss, bm = 128, bn = 64, bk = 64, pack = 2, epilogue = \"|x: Bsr<f16>, alpha: f32| alpha * acc * x\"",
];

const REFUSED: [&str; 25] = [
    "op = dss, bm = 64, bn = 64, bk = 112, pack = 4",
    "op = sss, bm = 64, bn = 64, bk = 64, pack = 2, split = 3",
    "op = dss, bm = 32, bn = 64, bk = 64",
    "op = dss, bm = 64, bn = 40, bk = 64",
    "op = dss, bm = 64, bn = 64, bk = 20",
    "op = dss, bm = 64, bn = 64, bk = 64, dtype = e4m3, b_layout = row",
    "op = dss, bm = 64, bn = 64, bk = 64, dtype = e4m3, scale = block",
    "op = dss, bm = 128, bn = 256, bk = 208, dtype = e4m3, accumulate = promoted",
    "op = sss, bm = 64, bn = 64, bk = 64, dtype = e4m3, scale = row_col",
    "op = sss, bm = 64, bn = 64, bk = 64, dtype = e4m3, scale = tensor, pack = 2",
    "op = dss, bm = 64, bn = 64, bk = 64, dtype = f32, tf32 = on",
    "op = dss, bm = 64, bn = 64, bk = 64, dtype = f32",
    "op = dss, bm = 64, bn = 64, bk = 64, transpose = on",
    "op = dss, bm = 64, bn = 64, bk = 64, swap = on",
    "op = dss, bm = 64, bn = 64, bk = 64, swap = off, pack = 5",
    "op = dss, bm = 64, bn = 64, bk = 64, batch = on",
    "op = dss, bm = 64, bn = 64, bk = 64, permute = on",
    "op = dss, bm = 64, bn = 64, bk = 64, cluster = 2",
    "op = dss, bm = 64, bn = 64, bk = 64, a_layout = col",
    "op = sss, bm = 64, bn = 64, bk = 64, c_layout = col",
    "op = sss, bm = 64, bn = 64, bk = 64, epilogue = \"|x: Dense<f16>| acc + x\"",
    "op = sss, bm = 64, bn = 64, bk = 64, epilogue = \"|bias: Cols<f32>| acc + bias\"",
    "op = sss, bm = 64, bn = 64, bk = 64, epilogue = \"|| (acc, row_max(acc))\"",
    "op = dss, bm = 64, bn = 64, bk = 64, mma = mma_sync",
    "op = sss, bm = 64, bn = 64, bk = 64, mma = scalar",
];

/// Epilogues of a dense C and of one in blocks.
const EPILOGUES: [(&str, &str); 5] = [
    ("dss", "beta = on"),
    ("dss", "epilogue = \"|bias: Cols<f32>, alpha: f32| (relu(alpha * acc + bias), row_max(acc))\""),
    ("dss", "epilogue = \"|bias: Rows<bf16>, x: Dense<f16>| gelu(acc + bias) * x\""),
    ("sss", "beta = on"),
    ("sss", "epilogue = \"|x: Bsr<f16>, alpha: f32| alpha * acc * x\""),
];

fn matrix() -> Vec<Plan> {
    let mut plans = vec![];
    for (i, (bm, bn, bk)) in BLOCKS.into_iter().enumerate() {
        let block = format!("bm = {bm}, bn = {bn}, bk = {bk}");
        for (j, op) in ["op = dss", "op = sss"].into_iter().enumerate() {
            plans.push(plan(&joined(&[op, &block])));
            let found = (0..KNOBS.len()).find_map(|step| {
                try_plan(&joined(&[op, &block, TYPES[(i + j) % 4], KNOBS[(2 * i + j + step) % KNOBS.len()]])).ok()
            });
            plans.extend(found);
        }
        let (op, epilogue) = EPILOGUES[i % EPILOGUES.len()];
        plans.extend(try_plan(&joined(&[&format!("op = {op}"), &block, epilogue])).ok());
    }
    plans.extend(SHARED.into_iter().chain(BY_COLUMNS).map(plan));
    plans
}

#[test]
fn plans_accepted() {
    golden("spgemm_plan", &plan("op = dss, bm = 128, bn = 128, bk = 64").to_string());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "spgemm_refused", &REFUSED);
}

/// One kernel whole, of others what the loads add, and what a C in blocks does.
#[test]
fn text() {
    let whole = "bm = 64, bn = 16, bk = 64, consumers = 1, stages = 2, op = dss";
    golden("spgemm_whole", plan(whole).ptx().text());
    let gathered = plan("op = dss, bm = 128, bn = 64, bk = 24").ptx();
    golden("spgemm_gathered", section(gathered.text(), "Producer"));
    let shared = plan("op = sss, bm = 512, bn = 128, bk = 64, cluster = 2").ptx();
    golden("spgemm_cluster", section(shared.text(), "Producer"));
    let [dense, blocks] = [whole, &whole.replace("dss", "sss")].map(|text| plan(text).ptx());
    let quadrants = plan("op = dss, bm = 64, bn = 64, bk = 64, pack = 4").ptx();
    golden("spgemm_quadrants", section(quadrants.text(), "Producer"));
    let [rows, columns] = ["row", "col"].map(|layout| plan(&format!("{whole}, b_layout = {layout}")).ptx());
    golden("spgemm_by_columns", &added(columns.text(), rows.text()));
    golden("spgemm_blocks", &added(blocks.text(), dense.text()));
}

/// B's blocks are one below another in its tensor map, and C's where it has blocks.
#[test]
fn maps_are_those_of_stored_blocks() {
    let problem = Problem { m: 1000, n: 700, k: 11 * 40, nnzb: 7, lda: 0, ldb: 0, ldc: 704, ldt: 704 };
    for (spec, dims) in [("bk = 64", [[64, 7 * 128, 1], [96, 440, 1]]), ("bk = 40", [[40, 7 * 128, 1], [96, 40, 11]])] {
        let launch = plan(&format!("op = dss, bm = 128, bn = 96, {spec}")).launch(&problem, [1, 1]);
        let map = |name: &str| match launch.parameters.iter().find(|parameter| parameter.name == name).unwrap().argument
        {
            Argument::Map(map) => map,
            other => panic!("{other:?}"),
        };
        assert_eq!([map("map_a").dims, map("map_b").dims], dims, "{spec}");
        assert_eq!(
            (map("map_b").strides_bytes[0], map("map_c").dims, map("map_c").strides_bytes[0]),
            (192, [700, 1000, 1], 1408)
        );
        let columns = plan(&format!("op = dss, bm = 128, bn = 96, {spec}, b_layout = col")).launch(&problem, [1, 1]);
        let depth = dims[0][0];
        let Some(Argument::Map(of_b)) = columns.parameters.iter().find(|of| of.name == "map_b").map(|of| of.argument)
        else {
            panic!("no map of B")
        };
        assert_eq!((of_b.rank, of_b.dims[..2].to_vec()), (2, vec![depth, problem.k / depth * 96]), "{spec}");
        let lists = launch.parameters.iter().filter(|of| matches!(of.argument, Argument::ColIdx | Argument::BlockIdx));
        assert_eq!(lists.count(), 2);
    }
}

/// Consumers multiply tiles, whatever they are of.
#[test]
fn consumers_are_those_of_a_dense_b() {
    for block in
        ["bm = 128, bn = 128, bk = 64", "bm = 512, bn = 128, bk = 112, cluster = 2", "bm = 64, bn = 64, bk = 16"]
    {
        let [one, pairs] = [block.to_owned(), format!("{block}, op = sss")].map(|text| plan(&text).ptx());
        assert_eq!(section(one.text(), "Consumers"), section(pairs.text(), "Consumers"), "{block}");
    }
}

#[test]
fn kernels_assemble_without_spills() {
    let plans = matrix();
    assert!(plans.len() > 60, "{} plans", plans.len());
    ptxas::assemble_all(&plans, "spgemm");
}
