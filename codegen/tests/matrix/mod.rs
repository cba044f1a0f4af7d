//! A matrix of legal specs, spread over every axis of the grammar.

use bsr_codegen::{KernelSpec, Plan, PlanErrors};

const BM: [u32; 7] = [64, 128, 192, 256, 320, 448, 512];
const BK: [u32; 9] = [16, 32, 48, 64, 80, 112, 128, 240, 512];
const BN: [u32; 8] = [128, 64, 256, 32, 192, 16, 384, 512];
const TYPES: [&str; 16] = [
    "",
    "dtype = e4m3",
    "dtype = bf16",
    "dtype = i8",
    "out = f32",
    "dtype = e4m3, accumulate = promoted, out = f32",
    "dtype = bf16, out = f32",
    "a = e4m3, b = e5m2, out = f16",
    "out = bf16",
    "dtype = e5m2, scale = tensor, out = e4m3",
    "dtype = bf16, out = f16",
    "dtype = i8, scale = row_col, out = f16",
    "out = e4m3",
    "dtype = e4m3, scale = block",
    "dtype = e4m3, scale = row_col",
    "a = e5m2, b = e4m3, accumulate = promoted, scale = row_col, out = e4m3",
];
const LAYOUTS: [&str; 4] = ["", "b_layout = col", "c_layout = col", "b_layout = col, c_layout = col"];
const KNOBS: [&str; 13] = [
    "",
    "cluster = 1",
    "cluster = 2",
    "stages = 2",
    "cluster = 4",
    "consumers = 1",
    "swizzle = 64",
    "stages = 3, schedule = strided",
    "consumers = 3",
    "k_step = 32",
    "cluster = 8",
    "swizzle = 32",
    "k_step = 64",
];

/// Specs that stand for something: the flagship in every layout and result type, the measured rows, the
/// shapes whose epilogue, gather or swizzle is special.
const CHOSEN: [&str; 139] = [
    "bm = 512, bn = 128, bk = 112",
    "bm = 512, bn = 128, bk = 112, dtype = bf16",
    "bm = 512, bn = 128, bk = 112, out = f32",
    "bm = 512, bn = 128, bk = 112, b_layout = col",
    "bm = 512, bn = 128, bk = 112, c_layout = col",
    "bm = 512, bn = 128, bk = 112, b_layout = col, c_layout = col",
    "bm = 512, bn = 128, bk = 112, out = f32, b_layout = col, c_layout = col",
    "bm = 512, bn = 128, bk = 112, cluster = 2",
    "bm = 512, bn = 128, bk = 112, cluster = 2, dtype = bf16, b_layout = col, c_layout = col",
    "bm = 512, bn = 128, bk = 112, cluster = 2, out = f32",
    "bm = 512, bn = 128, bk = 112, stages = 2",
    "bm = 512, bn = 128, bk = 112, stages = 3",
    "bm = 512, bn = 128, bk = 112, k_step = 16",
    "bm = 512, bn = 128, bk = 112, k_step = 112",
    "bm = 512, bn = 128, bk = 112, consumers = 1, cluster = 4, b_layout = col",
    "bm = 512, bn = 256, bk = 112",
    "bm = 128, bn = 256, bk = 128",
    "bm = 128, bn = 256, bk = 128, cluster = 2",
    "bm = 128, bn = 256, bk = 128, out = f32",
    "bm = 128, bn = 256, bk = 128, dtype = bf16, b_layout = col",
    "bm = 128, bn = 256, bk = 32",
    "bm = 128, bn = 256, bk = 32, out = f32, c_layout = col",
    "bm = 128, bn = 256, bk = 32, k_step = 32",
    "bm = 128, bn = 128, bk = 32, k_step = 128",
    "bm = 128, bn = 128, bk = 128, stages = 5",
    "bm = 64, bn = 256, bk = 64",
    "bm = 64, bn = 256, bk = 64, dtype = bf16, b_layout = col",
    "bm = 64, bn = 256, bk = 64, cluster = 2",
    "bm = 64, bn = 128, bk = 64, stages = 8",
    "bm = 64, bn = 128, bk = 16, k_step = 128, b_layout = col",
    "bm = 64, bn = 16, bk = 16",
    "bm = 64, bn = 16, bk = 16, consumers = 1, out = f32, c_layout = col",
    "bm = 64, bn = 32, bk = 16, swizzle = 32",
    "bm = 64, bn = 512, bk = 64",
    "bm = 192, bn = 128, bk = 96, consumers = 3",
    "bm = 192, bn = 64, bk = 16, cluster = 4",
    "bm = 384, bn = 128, bk = 256",
    "bm = 448, bn = 128, bk = 80",
    "bm = 256, bn = 128, bk = 48, swizzle = 64, b_layout = col",
    "bm = 256, bn = 64, bk = 512, k_step = 128, stages = 2",
    "bm = 512, bn = 128, bk = 112, dtype = e4m3",
    "bm = 512, bn = 128, bk = 112, dtype = e4m3, accumulate = promoted",
    "bm = 512, bn = 128, bk = 112, dtype = e4m3, scale = block, out = f32",
    "bm = 512, bn = 128, bk = 112, dtype = e4m3, cluster = 2, scale = row_col",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, cluster = 2",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, scale = block, cluster = 2",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, out = e4m3, c_layout = col",
    "bm = 128, bn = 256, bk = 128, dtype = i8",
    "bm = 128, bn = 256, bk = 128, dtype = i8, scale = tensor, out = bf16",
    "bm = 64, bn = 256, bk = 64, dtype = e4m3",
    "bm = 64, bn = 512, bk = 64, dtype = e4m3",
    "bm = 64, bn = 16, bk = 16, dtype = e4m3, out = e4m3",
    "bm = 64, bn = 64, bk = 48, a = e5m2, b = e4m3, scale = block",
    "bm = 128, bn = 128, bk = 32, dtype = e4m3, scale = row_col",
    "bm = 128, bn = 256, bk = 128, transpose = on",
    "bm = 112, bn = 128, bk = 512, transpose = on",
    "bm = 112, bn = 128, bk = 512, transpose = on, b_layout = col, c_layout = col, out = f32",
    "bm = 112, bn = 128, bk = 512, transpose = on, cluster = 2, dtype = bf16",
    "bm = 32, bn = 128, bk = 128, transpose = on",
    "bm = 8, bn = 128, bk = 64, transpose = on",
    "bm = 24, bn = 64, bk = 192, transpose = on, b_layout = col, consumers = 3",
    "bm = 64, bn = 128, bk = 256, transpose = on, consumers = 1, cluster = 2, swizzle = 64",
    "bm = 128, bn = 256, bk = 128, op = dds",
    "bm = 128, bn = 256, bk = 128, op = dds, transpose = on",
    "bm = 112, bn = 128, bk = 512, op = dds, a_layout = col",
    "bm = 112, bn = 128, bk = 512, op = dds, c_layout = col, out = f32",
    "bm = 512, bn = 128, bk = 112, op = dds, transpose = on, a_layout = col, dtype = bf16",
    "bm = 512, bn = 128, bk = 112, op = dds, transpose = on, cluster = 2",
    "bm = 128, bn = 256, bk = 128, op = dds, transpose = on, dtype = e4m3, scale = tensor",
    "bm = 64, bn = 64, bk = 112, op = dds, transpose = on, a = e4m3, b = e5m2, out = e4m3",
    "bm = 512, bn = 128, bk = 112, batch = on",
    "bm = 512, bn = 256, bk = 112, batch = on, cluster = 2",
    "bm = 128, bn = 256, bk = 128, batch = on",
    "bm = 128, bn = 256, bk = 128, batch = on, op = dds, dtype = bf16",
    "bm = 112, bn = 128, bk = 512, batch = on, transpose = on, out = f32",
    "bm = 128, bn = 256, bk = 128, batch = on, dtype = e4m3, accumulate = promoted",
    "bm = 64, bn = 64, bk = 24, batch = on, op = dds, transpose = on, c_layout = col",
    "bm = 64, bn = 256, bk = 40, batch = on, b_layout = col",
    "bm = 512, bn = 128, bk = 112, batch = on, dtype = e4m3",
    "bm = 128, bn = 256, bk = 40",
    "bm = 128, bn = 256, bk = 40, b_layout = col",
    "bm = 128, bn = 256, bk = 24",
    "bm = 512, bn = 128, bk = 72, cluster = 2",
    "bm = 64, bn = 128, bk = 8, b_layout = col, out = f32",
    "bm = 192, bn = 64, bk = 104, swizzle = 32, c_layout = col",
    "bm = 32, bn = 256, bk = 32",
    "bm = 16, bn = 256, bk = 16",
    "bm = 16, bn = 128, bk = 16, pack = 16",
    "bm = 8, bn = 64, bk = 8",
    "bm = 8, bn = 128, bk = 64, dtype = bf16",
    "bm = 24, bn = 128, bk = 40, b_layout = col, c_layout = col",
    "bm = 96, bn = 128, bk = 80",
    "bm = 200, bn = 128, bk = 200, out = f32",
    "bm = 488, bn = 64, bk = 16, c_layout = col",
    "bm = 64, bn = 256, bk = 64, swap = on",
    "bm = 512, bn = 128, bk = 112, swap = on",
    "bm = 64, bn = 192, bk = 64, pack = 2",
    "bm = 32, bn = 128, bk = 32, dtype = e4m3",
    "bm = 32, bn = 256, bk = 48, a = e5m2, b = e4m3, out = f32",
    "bm = 32, bn = 128, bk = 32, dtype = i8",
    "bm = 48, bn = 128, bk = 112, dtype = i8, c_layout = col",
    "bm = 32, bn = 256, bk = 32, transpose = on",
    "bm = 40, bn = 64, bk = 24, transpose = on, b_layout = col, c_layout = col, out = f32",
    "bm = 32, bn = 256, bk = 32, op = dds",
    "bm = 24, bn = 64, bk = 96, op = dds, a_layout = col, c_layout = col",
    "bm = 96, bn = 128, bk = 200, op = dds, transpose = on, out = f32",
    "bm = 40, bn = 256, bk = 24, k_step = 72",
    "bm = 32, bn = 64, bk = 32, consumers = 1, stages = 2, c_layout = col, out = f32",
    "bm = 32, bn = 256, bk = 32, batch = on",
    "bm = 128, bn = 256, bk = 64, permute = on",
    "bm = 128, bn = 256, bk = 128, out = f32, permute = on, cluster = 2",
    "bm = 64, bn = 16, bk = 16, permute = on",
    "bm = 32, bn = 256, bk = 32, permute = on",
    "bm = 40, bn = 256, bk = 24, out = f32, permute = on",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, out = e4m3, accumulate = promoted, permute = on",
    "bm = 24, bn = 64, bk = 200, batch = on, transpose = on",
    "bm = 40, bn = 128, bk = 24, batch = on, op = dds, out = f32, c_layout = col",
    "bm = 128, bn = 128, bk = 128, pdl = on",
    "bm = 128, bn = 256, bk = 64, cluster = 2, pdl = on",
    "bm = 32, bn = 256, bk = 32, pdl = on",
    "bm = 16, bn = 128, bk = 16, batch = on, pdl = on",
    "bm = 128, bn = 256, bk = 128, op = sdd, pdl = on",
    "bm = 64, bn = 256, bk = 64, swap = off, pack = 2",
    "bm = 64, bn = 192, bk = 64, swap = off, pack = 3",
    "bm = 128, bn = 64, bk = 112, swap = off, pack = 2, split = auto, pdl = on",
    "bm = 64, bn = 64, bk = 32, swap = off, pack = 2, op = dds, transpose = on, out = f32",
    "bm = 64, bn = 256, bk = 64, swap = off, pack = 2, cluster = 2, split = auto",
    "bm = 64, bn = 192, bk = 64, swap = off, pack = 3, cluster = 2",
    "bm = 64, bn = 32, bk = 32, swap = off, pack = 2, cluster = 8",
    "bm = 128, bn = 16, bk = 128, pdl = early",
    "bm = 112, bn = 64, bk = 128, op = dds, split = 2, pdl = early, cluster = 2",
    "bm = 128, bn = 16, bk = 128, split = auto",
    "bm = 64, bn = 64, bk = 64, split = 4, pdl = on",
    "bm = 128, bn = 256, bk = 64, cluster = 2, split = auto",
    "bm = 512, bn = 128, bk = 112, split = auto",
    "bm = 128, bn = 128, bk = 128, op = dds, dtype = bf16, split = 2",
    "bm = 16, bn = 32, bk = 64, split = 3, transpose = on, out = f32",
    "bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted, split = auto",
    "bm = 128, bn = 128, bk = 128, dtype = i8, split = auto",
    "bm = 128, bn = 128, bk = 64, permute = on, split = 16",
];

/// The plans of the chosen specs, and one for every pair of block sizes. The other axes are stepped through with strides
/// that share no factor, so that neighbours differ in everything. Where a combination cannot be planned, the next one
/// is taken.
pub(crate) fn plans() -> Vec<Plan> {
    let mut plans: Vec<Plan> =
        CHOSEN.into_iter().map(|text| plan(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))).collect();
    for (i, bm) in BM.into_iter().enumerate() {
        for (j, bk) in BK.into_iter().enumerate() {
            let start = i * BK.len() + j;
            let found = (0..BN.len() * KNOBS.len()).find_map(|step| {
                let bn = BN[(3 * start + step) % BN.len()];
                let sizes = format!("bm = {bm}, bn = {bn}, bk = {bk}");
                let parts = [
                    sizes.as_str(),
                    TYPES[(5 * start + i) % TYPES.len()],
                    LAYOUTS[(start + i) % LAYOUTS.len()],
                    KNOBS[(start + step / BN.len()) % KNOBS.len()],
                ];
                let given: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
                plan(&given.join(", ")).ok()
            });
            plans.push(found.unwrap_or_else(|| panic!("nothing with bm = {bm}, bk = {bk} plans")));
        }
    }
    plans.sort_by_key(|plan| *plan.spec());
    plans.dedup();
    plans
}

fn plan(text: &str) -> Result<Plan, PlanErrors> {
    let spec: KernelSpec = text.parse().unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&spec)
}
