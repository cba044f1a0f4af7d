#![allow(clippy::unwrap_used)]

use bsr_codegen::{KernelSpec, Plan};

use super::super::tests::{Constant, are_met, fitted, problem};
use super::super::{Costs, Kernel, Listed};
use super::COSTS;
use crate::model::{Card, for_gpu, predict};
use crate::problem::Heads;

/// Columns and block, pattern, kernel, executed TFLOP/s of its own products: bf16, 16 heads, 8192 queries and keys, an H100
/// (`benches/LOG.md`, 59).
const ALONE: [(u32, u32, &str, &str, f64); 13] = [
    (128, 128, "random:0.25", "dq, k_step = 64", 691.0),
    (128, 128, "random:0.25", "dq, k_step = 32", 643.0),
    (128, 128, "random:0.25", "dkv", 679.0),
    (128, 128, "random:0.25", "dkv, k_step = 32", 678.0),
    (128, 128, "window:0.140625", "dq", 589.0),
    (128, 128, "window:0.140625", "dkv", 627.0),
    (128, 128, "random:1", "dq", 766.0),
    (128, 128, "random:1", "dkv", 682.0),
    (128, 128, "random:1", "dkv, k_step = 32", 630.0),
    (128, 64, "random:0.125", "dq", 485.0),
    (128, 64, "random:0.125", "dkv", 574.0),
    (64, 128, "random:0.25", "dq, k_step = 64", 502.0),
    (64, 128, "random:0.25", "dkv, k_step = 64", 547.0),
];

/// The same of both kernels, by the plans' choice, of 16,384 queries and keys: five products of seven (`benches/LOG.md`, 61, and the
/// table of `docs/src/anatomy-attention-backward.md`).
const BOTH: [(u32, u32, &str, f64); 7] = [
    (128, 128, "random:0.25", 529.0),
    (128, 128, "window:0.0703125", 476.0),
    (128, 128, "random:1", 501.0),
    (128, 64, "random:0.125", 429.0),
    (64, 128, "random:0.25", 456.0),
    (64, 128, "window:0.0703125", 398.0),
    (64, 64, "random:0.125", 332.0),
];

const HEADS: Heads = Heads { batch: 1, heads: 16, key_heads: 16 };

fn card() -> Card {
    for_gpu("NVIDIA H100 80GB HBM3", None).0
}

fn spec((columns, block): (u32, u32), kernel: &str) -> KernelSpec {
    format!("op = attention_{kernel}, bm = {block}, bn = {columns}, bk = {block}, dtype = bf16").parse().unwrap()
}

/// Kernels that run one after the other, and how long they took.
type Row = (String, Vec<Listed>, f64);

fn rows() -> Vec<Row> {
    let card = card();
    let row = |(columns, block, pattern, queries): (u32, u32, &str, usize), kernels: &[&str], tflops: f64| {
        let (mut all, mut flops) = (vec![], 0);
        for kernel in kernels {
            let spec = spec((columns, block), kernel);
            let problem = problem(&spec, (queries, queries), HEADS, pattern);
            all.push(Listed::new(&Kernel::of(&Plan::new(&spec).unwrap()).unwrap(), &problem, &card).unwrap());
            flops += problem.executed_flops();
        }
        // Of both kernels five products count of seven.
        let counted = if kernels.len() == 2 { 5.0 / 7.0 } else { 1.0 };
        let name = format!("d {columns}, {block} x {block}, {pattern}, {queries}: {}", kernels.join(" and "));
        (name, all, counted * flops as f64 / tflops * 1e-6)
    };
    let alone = ALONE
        .iter()
        .map(|(columns, block, pattern, kernel, tflops)| row((*columns, *block, *pattern, 8192), &[*kernel], *tflops));
    let both = BOTH
        .iter()
        .map(|(columns, block, pattern, tflops)| row((*columns, *block, *pattern, 16384), &["dq", "dkv"], *tflops));
    alone.chain(both).collect()
}

/// The logarithms of predicted over measured.
fn logs(rows: &[Row], costs: &Costs) -> Vec<f64> {
    let card = card();
    let us = |kernels: &[Listed]| kernels.iter().map(|kernel| kernel.prediction(costs, &card).us).sum::<f64>();
    rows.iter().map(|(_, kernels, measured)| (us(kernels) / measured).ln()).collect()
}

#[test]
fn gradients_take_what_was_measured() {
    let rows = rows();
    are_met(&rows, logs(&rows, &COSTS));
}

/// Of kernels that were timed in one run the model takes none that is more than 1 % behind.
#[test]
fn kernels_of_a_gradient_are_sorted() {
    let us = |(columns, block, pattern, kernel, tflops): &(u32, u32, &str, &str, f64)| {
        let spec = spec((*columns, *block), kernel);
        let problem = problem(&spec, (8192, 8192), HEADS, pattern);
        let measured = problem.executed_flops() as f64 / tflops * 1e-6;
        (predict(&Plan::new(&spec).unwrap(), &problem, &card()).us, measured)
    };
    for rivals in [&ALONE[0..2], &ALONE[2..4], &ALONE[7..9]] {
        let times: Vec<_> = rivals.iter().map(us).collect();
        let taken = times.iter().min_by(|x, y| x.0.total_cmp(&y.0)).unwrap().1;
        let best = times.iter().map(|time| time.1).fold(f64::INFINITY, f64::min);
        assert!(taken < 1.01 * best, "{rivals:?}: {times:?}");
    }
}

/// At 64 columns the plans' steps of 128 take 395 us of both kernels, those of 64 take 467.
#[test]
fn large_steps_are_faster_and_groups_of_heads_cost_what_heads_do() {
    let us = |kernel: &str, columns, heads| {
        let spec = spec((columns, 128), kernel);
        predict(&Plan::new(&spec).unwrap(), &problem(&spec, (8192, 8192), heads, "random:0.25"), &card()).us
    };
    for kernel in ["dq", "dkv"] {
        assert!(us(&format!("{kernel}, k_step = 64"), 64, HEADS) > 1.03 * us(kernel, 64, HEADS), "{kernel}");
        let grouped = us(kernel, 128, Heads { key_heads: 4, ..HEADS }) / us(kernel, 128, HEADS);
        // A quarter of the tiles of keys, each four times as long: the last ones end later.
        assert!((0.9..1.3).contains(&grouped), "{kernel}: {grouped}");
        assert!(
            us(kernel, 128, Heads { heads: 32, key_heads: 32, ..HEADS }) > 1.8 * us(kernel, 128, HEADS),
            "{kernel}"
        );
    }
}

/// `cargo test -p bsr-tuner --lib costs_of_gradients_as_fitted -- --ignored --nocapture`.
#[test]
#[ignore = "prints constants, tests nothing"]
fn costs_of_gradients_as_fitted() {
    let constants: [Constant; 4] = [|c| &mut c.beside, |c| &mut c.faster, |c| &mut c.step_us, |c| &mut c.tile_us];
    let rows = rows();
    let squares = |costs: &Costs| logs(&rows, costs).iter().map(|log| log * log).sum::<f64>();
    let costs = fitted(COSTS, &constants, squares);
    println!("{costs:#?} {:.4} of {:.4}", squares(&costs), squares(&COSTS));
    for ((name, _, us), log) in rows.iter().zip(logs(&rows, &costs)) {
        println!("{:.3} of {us:>7.1} us: {name}", log.exp());
    }
}
