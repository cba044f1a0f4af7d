//! Swap-AB kernels: their plans, refusals and text.

use crate::golden::{added, golden, golden_plans, golden_refusals, section};
use crate::planning::{plan, try_plan};
use bsr_codegen::{Argument, Problem, TileScheduler};
use proptest::prelude::*;
use proptest::sample::select;

const ACCEPTED: [&str; 14] = [
    "bm = 32, bn = 256, bk = 32",
    "bm = 16, bn = 256, bk = 16",
    "bm = 8, bn = 64, bk = 8",
    "bm = 24, bn = 128, bk = 40",
    "bm = 96, bn = 128, bk = 80",
    "bm = 40, bn = 256, bk = 24, c_layout = col",
    "bm = 200, bn = 128, bk = 200",
    "bm = 488, bn = 64, bk = 16",
    "bm = 512, bn = 128, bk = 112, swap = on",
    "bm = 64, bn = 128, bk = 64, pack = 2",
    "bm = 32, bn = 128, bk = 48, dtype = e4m3",
    "bm = 48, bn = 128, bk = 112, dtype = i8",
    "bm = 32, bn = 128, bk = 24, transpose = on",
    "bm = 96, bn = 128, bk = 32, op = dds, out = f32",
];

const REFUSED: [&str; 22] = [
    "bm = 36, bn = 128, bk = 32",
    "bm = 520, bn = 128, bk = 32",
    "bm = 32, bn = 128, bk = 36",
    "bm = 32, bn = 128, bk = 1024",
    "bm = 32, bn = 96, bk = 32",
    "bm = 32, bn = 512, bk = 32",
    "bm = 32, bn = 256, bk = 32, pack = 7",
    "bm = 200, bn = 256, bk = 32, pack = 2",
    "bm = 32, bn = 256, bk = 32, consumers = 3",
    "bm = 32, bn = 256, bk = 32, consumers = 4",
    "bm = 32, bn = 256, bk = 32, stages = 1",
    "bm = 32, bn = 256, bk = 32, stages = 20",
    "bm = 32, bn = 256, bk = 32, cluster = 2, swizzle = 64",
    "bm = 32, bn = 128, bk = 64, k_step = 24",
    "bm = 32, bn = 128, bk = 32, k_step = 80",
    "bm = 32, bn = 128, bk = 32, dtype = f32",
    "bm = 32, bn = 128, bk = 32, a = f16, b = bf16",
    "bm = 32, bn = 128, bk = 32, dtype = e4m3, accumulate = promoted, scale = tensor, out = e4m3",
    "bm = 32, bn = 128, bk = 32, dtype = i8, out = f16",
    "bm = 32, bn = 128, bk = 32, dtype = e4m3, b_layout = row",
    "bm = 32, bn = 128, bk = 32, dtype = e4m3, transpose = on",
    "bm = 32, bn = 128, bk = 32, batch = on, beta = on",
];

#[test]
fn plans_accepted() {
    golden_plans("swap_ab_plans", ACCEPTED, |plan| {
        plan.rows()[1..3].iter().map(|[what, value, why]| format!("{what}: {value}, {why}\n")).collect()
    });
    golden("swap_ab_plan", &plan(ACCEPTED[0]).to_string());
}

#[test]
fn plans_refused() {
    golden_refusals("snapshots", "swap_ab_refused", &REFUSED);
}

/// One kernel whole, the lines that a list of problems adds, and those of a block that takes two boxes.
#[test]
fn text() {
    golden("swap_ab_whole", plan("bm = 32, bn = 64, bk = 32, pack = 2, stages = 2").ptx().text());
    let single = "bm = 32, bn = 64, bk = 24, pack = 2, stages = 2";
    let listed = plan(&format!("{single}, batch = on"));
    golden("swap_ab_batch", &added(listed.ptx().text(), plan(single).ptx().text()));
    let block =
        |bk: u32| plan(&format!("bm = 24, bn = 64, bk = {bk}, pack = 1, stages = 2, op = dds, out = f32")).ptx();
    let (one, two) = (block(40), block(72));
    golden("swap_ab_two_boxes", &added(section(two.text(), "Producers"), section(one.text(), "Producers")));
}

/// Blocks of 64 rows keep their own family unless the spec asks.
#[test]
fn the_way_is_chosen_by_the_rows() {
    let swap_ab = |text: &str| matches!(plan(text).tile_scheduler(), TileScheduler::StageMetadata(_));
    assert!(!swap_ab("bm = 64, bn = 128, bk = 64"));
    assert!(swap_ab("bm = 64, bn = 128, bk = 64, swap = on"));
    assert!(swap_ab("bm = 64, bn = 128, bk = 64, pack = 1"));
    assert!(swap_ab("bm = 72, bn = 128, bk = 64"));
    assert!(swap_ab("bm = 64, bn = 128, bk = 72, transpose = on"));
    assert!(!swap_ab("bm = 72, bn = 128, bk = 64, transpose = on"));
}

proptest! {
    /// Any block of whole 16-byte vectors is planned, within the limits of the hardware.
    #[test]
    fn every_block_has_a_plan(
        rows in (1..=64_u32).prop_map(|n| 8 * n),
        depth in (1..=64_u32).prop_map(|n| 8 * n),
        bn in select(vec![64_u32, 128, 192, 256]),
        out in select(vec!["f16", "f32"]),
        layouts in select(vec!["", ", b_layout = col", ", c_layout = col"]),
        transpose in select(vec!["off", "on"]),
    ) {
        let (bm, bk) = if transpose == "on" { (depth, rows) } else { (rows, depth) };
        let text = format!("bm = {bm}, bn = {bn}, bk = {bk}, out = {out}, transpose = {transpose}, swap = on{layouts}");
        let plan = match try_plan(&text) {
            Ok(plan) => plan,
            // A deep block under a wide tile may leave no room for two stages: a narrower tile has it.
            Err(errors) => {
                let narrow = text.replace(&format!("bn = {bn}"), "bn = 64");
                prop_assert!(try_plan(&narrow).is_ok(), "{}\n{}", narrow, errors);
                return Ok(());
            }
        };
        let TileScheduler::StageMetadata(packing) = plan.tile_scheduler() else {
            panic!("{text}: another tile scheduler")
        };
        prop_assert!(plan.shared_bytes() <= 232_448);
        prop_assert_eq!(packing.rows * packing.slices, rows);
        prop_assert!(packing.k_slice * packing.k_slices >= depth && packing.k_slice * (packing.k_slices - 1) < depth);
        prop_assert!(packing.b_panels + packing.blocks <= 31 && packing.blocks >= 1);
        let problem = Problem { m: 1000, n: 1000, k: 1000, nnzb: 7, lda: 1008, ldb: 1008, ldc: 1008, ..Problem::default() };
        for parameter in plan.launch(&problem, [1, 1]).parameters {
            if let Argument::Map(map) = parameter.argument {
                let line = map.box_dims[0] * map.dtype.bytes();
                prop_assert!(line % 16 == 0 && line <= map.swizzle_bytes.max(16), "{text}: {map:?}");
                prop_assert!(map.box_dims.iter().all(|side| (1..=256).contains(side)), "{text}: {map:?}");
            }
        }
    }
}
