//! Warp instructions that the simulator executes in a second.
//!
//! `cargo test --release -p bsr-simulator --test mutants -- --ignored --nocapture speed` prints the figures of every family on
//! one core and on all; `BSR_KERNEL` takes the specs that contain its words.

use std::time::Instant;

use rayon::prelude::*;

use crate::families::planned;
use crate::trial;

/// A kernel of every family and operation.
const KERNELS: &[&str] = &[
    "bm = 512, bn = 128, bk = 112",
    "bm = 128, bn = 128, bk = 64",
    "bm = 64, bn = 64, bk = 64, consumers = 1, cluster = 4",
    "bm = 64, bn = 64, bk = 64, dtype = e4m3, out = f16",
    "bm = 16, bn = 64, bk = 16",
    "bm = 128, bn = 64, bk = 64, op = sdd, schedule = balanced",
    "bm = 16, bn = 32, bk = 16, mma = mma_sync",
    "bm = 32, bn = 32, bk = 32, mma = wmma, arch = sm_70",
    "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32",
];

/// Thousands of warp instructions a second, with races looked for, in the problems and schedules of `bsr check`.
#[test]
#[ignore = "a benchmark: cargo test --release -p bsr-simulator --test mutants -- --ignored --nocapture speed"]
fn instructions_per_second() {
    let only = std::env::var("BSR_KERNEL").unwrap_or_default();
    let (mut steps, mut alone, mut together) = (0, 0.0, 0.0);
    for spec in KERNELS.iter().filter(|spec| spec.contains(&only)) {
        let plan = planned(spec);
        let kernel = trial::own(&plan);
        let problems = trial::problems(&plan);
        let runs: Vec<_> = problems.iter().flat_map(trial::Problem::runs).collect();
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let start = Instant::now();
        let executed: u64 = one.install(|| runs.iter().map(|(at, options)| at.steps(&kernel, options)).sum());
        let serial = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let again: u64 = runs.par_iter().map(|(at, options)| at.steps(&kernel, options)).sum();
        let parallel = start.elapsed().as_secs_f64();
        assert_eq!(executed, again, "{spec}: every run is a function of its seed");
        let thousands = |seconds: f64| executed as f64 / seconds / 1e3;
        println!(
            "{spec}: {executed} warp instructions, {:.0} k/s on one core ({serial:.2} s), {:.0} k/s on all ({parallel:.2} s)",
            thousands(serial),
            thousands(parallel)
        );
        (steps, alone, together) = (steps + executed, alone + serial, together + parallel);
    }
    let thousands = |seconds: f64| steps as f64 / seconds / 1e3;
    println!(
        "summary: {steps} warp instructions, {:.0} k/s on one core, {:.0} k/s on {} threads",
        thousands(alone),
        thousands(together),
        rayon::current_num_threads()
    );
}

/// Seconds and warp instructions of each problem of one kernel, `BSR_KERNEL`, on one core; `BSR_KIND` takes those whose
/// names contain its words.
#[test]
#[ignore = "a benchmark: BSR_KERNEL=.. cargo test --release -p bsr-simulator --test mutants -- --ignored --nocapture speed"]
fn seconds_of_each_problem() {
    let Ok(spec) = std::env::var("BSR_KERNEL") else { return };
    let plan = planned(&spec);
    let kernel = trial::own(&plan);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let only = std::env::var("BSR_KIND").unwrap_or_default();
    for trial in bsr_trial::subject::trials(&plan, 0, None).unwrap() {
        let name = trial.name();
        if !name.contains(&only) {
            continue;
        }
        let start = Instant::now();
        let problem = one.install(|| trial::Problem::new(trial));
        let drawn = start.elapsed().as_secs_f64();
        let steps: Vec<u64> = one.install(|| problem.runs().map(|(at, options)| at.steps(&kernel, &options)).collect());
        let all = start.elapsed().as_secs_f64();
        println!("{:10} drawn in {drawn:.2} s, {:.2} s for {steps:?} warp instructions", name, all - drawn);
    }
}
