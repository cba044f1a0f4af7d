//! Every value of every key is in a row of some table; here are those that no other table has a reason to draw.

use super::{assert_launchable, block_as_read, parse, shape_of};
use super::{
    batch, dds, epilogue, epilogue_warp, fp8, half_sums, int8, load, packed, permuted, scalar, sdd, sdd_fused,
    small_blocks, spgemm,
};
use super::{doubles, sample_cases, split, split_swap_ab, swap_ab, tf32, transposed, warp, warp_sdd, wgmma};
use crate::case::{Blocks, Case};
use crate::drawn::{PRODUCTS, missing};
use crate::run::run_table;
use crate::simulate::simulate_table;

/// A kind of product, and what its kernels are asked for beside the sizes.
const ROWS: [(&str, &[&str]); 11] = [
    ("bm = 128, bn = 128, bk = 64", &["arch = sm_90a, swap = off"]),
    ("bm = 32, bn = 128, bk = 32", &["arch = sm_90a, cluster = 1, pack = 4, swizzle = 128"]),
    (
        "bm = 64, bn = 128, bk = 64, swap = off, pack = 2",
        &[
            "arch = sm_90a, cluster = 1, consumers = 2, swizzle = 128",
            "schedule = balanced, swizzle = 64",
            "swizzle = 32",
            "dtype = e5m2, out = e4m3",
        ],
    ),
    (
        "bm = 32, bn = 128, bk = 32, op = dds",
        &[
            "arch = sm_90a, cluster = 1, consumers = 1, pack = 1, schedule = balanced",
            "beta = on, consumers = 2, pack = 2, pdl = on, schedule = strided",
            "dtype = bf16, pack = 3, swap = on, swizzle = 128",
            "pack = 4, split = 2",
            "pack = 8, split = 3",
            "split = long",
        ],
    ),
    (
        "bm = 64, bn = 128, bk = 128, op = dds",
        &["pdl = on, split = 3, swizzle = 128", "split = long, swizzle = 64", "swap = off, swizzle = 32"],
    ),
    (
        "bm = 128, bn = 128, bk = 128, op = dds, transpose = on, dtype = e4m3",
        &["accumulate = fast, arch = sm_90a, cluster = 8", "accumulate = promoted, out = e4m3"],
    ),
    (
        "bm = 64, bn = 64, bk = 64, mma = mma_sync",
        &["schedule = balanced", "schedule = strided", "split = auto", "split = long", "split = 4"],
    ),
    (
        "bm = 64, bn = 64, bk = 64, mma = wmma",
        &["schedule = balanced", "split = long", "split = 2", "split = 3", "split = 4"],
    ),
    ("bm = 64, bn = 64, bk = 32, mma = scalar", &["schedule = balanced", "schedule = strided"]),
    ("bm = 3, bn = 4, bk = 3, mma = scalar, dtype = f64", &["accumulate = register"]),
    ("bm = 64, bn = 64, bk = 32, mma = scalar, out = f32, accumulate = atomic", &["vector = 1"]),
];

/// Kinds of product whose K is divided into any number of parts.
const DIVIDED: [&str; 5] = [
    "bm = 64, bn = 32, bk = 32, swap = off, pack = 2",
    "bm = 32, bn = 64, bk = 32, op = dds",
    "bm = 32, bn = 32, bk = 64, op = dds",
    "bm = 64, bn = 64, bk = 64, mma = mma_sync",
    "bm = 64, bn = 64, bk = 64, mma = wmma",
];

/// On rows of 20 blocks, of none and of three.
fn rows() -> Vec<Case> {
    let of_rows = ROWS.iter().flat_map(|(base, rest)| rest.iter().map(move |rest| format!("{base}, {rest}")));
    let parts = |base| (5..=16).map(move |parts| format!("{base}, split = {parts}"));
    let case = |text: String| {
        let spec = parse(&text);
        let (rows, depth) = block_as_read(&spec);
        let shape = shape_of(&spec, (5 * rows + 7, spec.bn as usize + 9, 20 * depth));
        Case::new(&text, shape, Blocks::Lengths(&[20, 0, 3]))
    };
    of_rows.chain(DIVIDED.into_iter().flat_map(parts)).map(case).collect()
}

#[test]
fn values_of_keys() {
    run_table("values of keys", &rows());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&[rows()]);
}

#[test]
fn simulated() {
    simulate_table("values of keys", &rows(), 19);
}

#[test]
fn every_value_of_every_key_is_drawn() {
    let tables = [
        dds::all(),
        doubles::all(),
        epilogue::all(),
        fp8::all(),
        half_sums::all(),
        int8::all(),
        packed::all(),
        scalar::all(),
        small_blocks::all(),
        split::all(),
        split_swap_ab::all(),
        swap_ab::all(),
        tf32::all(),
        load::all(),
        epilogue_warp::all(),
        transposed::all(),
        warp::all(),
        wgmma::all(),
        vec![permuted::all(), sample_cases(), rows()],
    ];
    let products = tables.iter().flatten().flatten().map(|case| case.spec);
    let sddmms = [sdd::all(), sdd_fused::cases(), warp_sdd::all(), warp_sdd::part_cases()]
        .concat()
        .into_iter()
        .map(|case| case.spec);
    // Lists of SDDMMs have tests of their own.
    let of_sddmm = ["", ", mma = mma_sync", ", mma = wmma"]
        .map(|mma| parse(&format!("bm = 64, bn = 64, bk = 64, op = sdd, batch = on{mma}")));
    let batches = batch::all().into_iter().map(|list| list.spec).chain(of_sddmm);
    let missing = missing(&PRODUCTS, products.chain(sddmms).chain(spgemm::specs()).chain(batches));
    assert!(missing.is_empty(), "{} values are in no row:\n{}", missing.len(), missing.join("\n"));
}
