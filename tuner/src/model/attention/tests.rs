#![allow(clippy::unwrap_used)]

use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::Pattern;

use super::super::{Prediction, predict};
use super::*;
use crate::{Facts, Source, Workload};

fn predicted(spec: &str, queries: usize, heads: usize, pattern: &str) -> (Prediction, u64) {
    let spec: KernelSpec = spec.parse().unwrap();
    let plan = Plan::new(&spec).unwrap();
    let problem = problem(&spec, (queries, queries), Heads { batch: 1, heads, key_heads: heads }, pattern);
    (predict(&plan, &problem, &Card::h200()), problem.executed_flops())
}

/// Columns and block, pattern, TFLOP/s of the fastest of a few kernels: bf16, 16 heads, 16384 queries and keys (the table
/// of `docs/src/attention.md`).
const RATES: [(u32, u32, &str, f64); 14] = [
    (128, 128, "random:1", 744.0),
    (128, 128, "random:0.25", 725.0),
    (128, 128, "window:0.0703125", 648.0),
    (128, 128, "causal", 724.0),
    (128, 64, "random:0.25", 546.0),
    (128, 64, "window:0.03515625", 546.0),
    (128, 64, "causal", 690.0),
    (64, 128, "random:1", 496.0),
    (64, 128, "random:0.25", 472.0),
    (64, 128, "window:0.0703125", 448.0),
    (64, 128, "causal", 532.0),
    (64, 64, "random:0.25", 408.0),
    (64, 64, "window:0.03515625", 365.0),
    (64, 64, "causal", 529.0),
];

/// Problems, queries and keys of 32 heads over 8 heads of K and V, keys of the spec, microseconds (`benches/LOG.md`, 36).
const DECODE: [(usize, usize, usize, &str, f64); 10] = [
    (1, 1, 4096, "", 41.1),
    (1, 1, 4096, ", pack_heads = 4, split = 8", 17.1),
    (1, 1, 16384, "", 144.8),
    (1, 1, 16384, ", pack_heads = 4, split = 16", 28.6),
    (1, 1, 65536, "", 558.7),
    (1, 1, 65536, ", pack_heads = 4, split = 16", 72.3),
    (4, 16, 16384, "", 147.0),
    (4, 16, 16384, ", pack_heads = 4, split = auto", 68.5),
    (16, 1, 4096, ", pack_heads = 4", 65.1),
    (16, 1, 16384, ", pack_heads = 4", 237.2),
];

/// Heads, queries and keys, blocks a row, and what kernels of 64 x 64 blocks took, by [`OF_SMALL_BLOCKS`]: 128 columns, bf16, an
/// H100, cold L2 (`benches/LOG.md`, 64).
const SMALL_BLOCKS: [(usize, usize, &str, [f64; 5]); 8] = [
    (8, 1024, "topk:4", [14.2, 12.4, 12.8, 10.5, 10.9]),
    (12, 2048, "topk:6", [26.4, 22.9, 22.8, 21.6, 22.1]),
    (2, 4096, "topk:16", [25.7, 23.6, 23.6, 17.2, 17.8]),
    (24, 4096, "topk:8", [75.5, 63.6, 64.1, 67.5, 68.1]),
    (24, 8192, "topk:16", [247.7, 210.7, 210.7, 221.2, 220.5]),
    (1, 8192, "topk:64", [63.7, 63.6, 47.6, 46.0, 37.4]),
    (12, 32768, "topk:32", [961.6, 868.7, 861.9, 838.4, 838.2]),
    (16, 16384, "topk:64", [1131.8, 1045.6, 1047.0, 1042.0, 1048.3]),
];
const OF_SMALL_BLOCKS: [&str; 5] = [
    "consumers = 2, k_step = 128",
    "consumers = 2, k_step = 64",
    "consumers = 2, k_step = 64, split = auto",
    "consumers = 1",
    "consumers = 1, split = auto",
];

#[test]
fn kernels_of_small_blocks_are_sorted() {
    let (card, _) = super::super::for_gpu("NVIDIA H100 80GB HBM3", None);
    for (heads, queries, pattern, measured) in SMALL_BLOCKS {
        let predicted = OF_SMALL_BLOCKS.map(|keys| {
            let spec = format!("op = attention, bm = 64, bn = 128, bk = 64, dtype = bf16, {keys}").parse().unwrap();
            let heads = Heads { batch: 1, heads, key_heads: heads };
            predict(&Plan::new(&spec).unwrap(), &problem(&spec, (queries, queries), heads, pattern), &card).us
        });
        eprintln!("{heads:>2} x {queries:>5}, {pattern:>7}: {predicted:>7.1?}, measured {measured:?}");
        let taken = (0..5).min_by(|x, y| predicted[*x].total_cmp(&predicted[*y])).unwrap();
        let best = measured.into_iter().fold(f64::INFINITY, f64::min);
        assert!(measured[taken] < 1.08 * best, "{heads} x {queries}, {pattern}: {}", OF_SMALL_BLOCKS[taken]);
    }
}

pub(super) fn problem(
    spec: &KernelSpec,
    (queries, keys): (usize, usize),
    heads: Heads,
    pattern: &str,
) -> TuningProblem {
    let words: Pattern = pattern.parse().unwrap();
    let structure = words.structure(queries, keys, (spec.bm as usize, spec.bk as usize), 1).unwrap();
    let source = Source::Mask { pattern: pattern.to_owned(), heads };
    let k = spec.score_depth() as usize;
    TuningProblem::new(Workload { facts: Facts::of(spec), m: queries, n: keys, k, source, seed: 1 }, &structure)
}

/// The kernels of every row above, and what the fastest of them took.
fn rows() -> Vec<(String, Vec<Listed>, f64)> {
    let listed = |spec: &str, sizes, heads, pattern: &str| -> Option<(Listed, u64)> {
        let spec: KernelSpec = spec.parse().unwrap();
        let plan = Plan::new(&spec).ok()?;
        let problem = problem(&spec, sizes, heads, pattern);
        let listed = Listed::new(&Kernel::of(&plan)?, &problem, &Card::h200()).unwrap();
        Some((listed, problem.executed_flops()))
    };
    let rates = RATES.iter().map(|(columns, block, pattern, tflops)| {
        let spec = format!("op = attention, bm = {block}, bn = {columns}, bk = {block}, dtype = bf16");
        let heads = Heads { batch: 1, heads: 16, key_heads: 16 };
        let kernels = ["", ", consumers = 3", ", k_step = 64", ", k_step = 64, consumers = 3"];
        let kernels =
            kernels.iter().filter_map(|more| listed(&format!("{spec}{more}"), (16384, 16384), heads, pattern));
        let (kernels, flops): (Vec<Listed>, Vec<u64>) = kernels.unzip();
        (format!("{spec}, {pattern}"), kernels, flops[0] as f64 / tflops * 1e-6)
    });
    let decode = DECODE.iter().map(|(batch, queries, keys, more, us)| {
        let spec = format!("op = attention, bm = 64, bn = 128, bk = 128, dtype = bf16{more}");
        let heads = Heads { batch: *batch, heads: 32, key_heads: 8 };
        let kernel = listed(&spec, (*queries, *keys), heads, "random:1").unwrap().0;
        (format!("{spec}, {batch} x {queries} x {keys}"), vec![kernel], *us)
    });
    rates.chain(decode).collect()
}

/// The logarithms of predicted over measured.
fn logs(rows: &[(String, Vec<Listed>, f64)], costs: &Costs) -> Vec<f64> {
    let us = |kernels: &[Listed]| {
        kernels.iter().map(|kernel| kernel.prediction(costs, &Card::h200()).us).fold(f64::INFINITY, f64::min)
    };
    rows.iter().map(|(_, kernels, measured)| (us(kernels) / measured).ln()).collect()
}

#[test]
fn rates_are_those_that_were_measured() {
    let rows = rows();
    are_met(&rows, logs(&rows, &COSTS));
}

/// Predicted times of kernels are those that were measured: `logs` are the logarithms of their ratios.
pub(super) fn are_met(rows: &[(String, Vec<Listed>, f64)], mut logs: Vec<f64>) {
    for ((name, _, us), log) in rows.iter().zip(&logs) {
        eprintln!("{:.3} of {us:>7.1} us: {name}", log.exp());
    }
    logs.iter_mut().for_each(|log| *log = log.abs());
    logs.sort_by(f64::total_cmp);
    let [median, worst] = [logs[logs.len() / 2], logs[logs.len() - 1]];
    eprintln!("error median {median:.3}, worst {worst:.3}");
    assert!(median < 0.06 && worst < 0.12, "{median} {worst}");
}

/// `cargo test -p bsr-tuner --lib costs_as_fitted -- --ignored --nocapture`.
#[test]
#[ignore = "prints constants, tests nothing"]
fn costs_as_fitted() {
    let constants: [Constant; 7] = [
        |c| &mut c.beside,
        |c| &mut c.exposed,
        |c| &mut c.faster,
        |c| &mut c.step_us,
        |c| &mut c.tile_us,
        |c| &mut c.part_us,
        |c| &mut c.exchange_us,
    ];
    let rows = rows();
    let squares = |costs: &Costs| logs(&rows, costs).iter().map(|log| log * log).sum::<f64>();
    let costs = fitted(COSTS, &constants, squares);
    println!("{costs:#?} {:.4} of {:.4}", squares(&costs), squares(&COSTS));
    for ((name, _, us), log) in rows.iter().zip(logs(&rows, &costs)) {
        println!("{:.3} of {us:>7.1} us: {name}", log.exp());
    }
}

pub(super) type Constant = fn(&mut Costs) -> &mut f64;

/// The costs of the least squares that a few rounds find, one constant after the other.
pub(super) fn fitted(mut costs: Costs, constants: &[Constant], squares: impl Fn(&Costs) -> f64) -> Costs {
    let mut by = 1.3;
    for _ in 0..30 {
        let before = squares(&costs);
        for constant in constants {
            let tried = [by, 1.0 / by].map(|by| {
                let mut tried = costs;
                *constant(&mut tried) *= by;
                tried
            });
            let best = tried.into_iter().chain([costs]).min_by(|x, y| squares(x).total_cmp(&squares(y)));
            costs = best.unwrap_or(costs);
        }
        by = if squares(&costs) < before { by } else { 1.0 + (by - 1.0) / 2.0 };
    }
    costs
}

/// Each division of the keys of one query has a time of its own, and packed heads are read once.
#[test]
fn divided_keys_and_packed_heads_are_told_apart() {
    let us = |batch: usize, more: &str| {
        let heads = Heads { batch, heads: 32, key_heads: 8 };
        let spec = format!("op = attention, bm = 64, bn = 128, bk = 128, dtype = bf16{more}");
        let spec: KernelSpec = spec.parse().unwrap();
        let plan = Plan::new(&spec).unwrap();
        predict(&plan, &problem(&spec, (1, 16384), heads, "random:1"), &Card::h200()).us
    };
    let divided = ["", ", split = 2", ", split = 4", ", split = 8", ", split = 16", ", pack_heads = 4, split = 16"];
    let mut times = divided.map(|more| us(1, more)).to_vec();
    assert!(times[5] < 0.5 * times[0], "{times:?}");
    times.sort_by(f64::total_cmp);
    assert!(times.windows(2).all(|pair| pair[1] > 1.001 * pair[0]), "{times:?}");
    // 564 us and 237, as measured.
    assert!(us(16, "") > 1.8 * us(16, ", pack_heads = 4"));
    // Groups of four heads are no tiles of eight.
    assert_eq!(us(1, ", pack_heads = 8"), f64::INFINITY);
}

#[test]
fn more_work_takes_longer_and_small_steps_do_too() {
    let us = |more: &str, queries, heads, pattern| {
        predicted(&format!("op = attention, bm = 128, bn = 128, bk = 128{more}"), queries, heads, pattern).0.us
    };
    let base = us("", 8192, 8, "random:0.25");
    assert!(us("", 8192, 16, "random:0.25") > 1.7 * base);
    assert!(us("", 8192, 8, "random:0.5") > 1.7 * base);
    assert!(us("", 16384, 8, "random:0.25") > 3.0 * base);
    assert!(us(", k_step = 32", 8192, 8, "random:0.25") > base);
    assert!(us(", d = 256", 8192, 8, "random:0.25") > 1.2 * base);
    let (prediction, _) = predicted("op = attention, bm = 64, bn = 64, bk = 64", 8192, 8, "random:0.1");
    assert!(prediction.us > prediction.term(What::Hbm) && prediction.term(What::Exponentials) > 0.0);
}
