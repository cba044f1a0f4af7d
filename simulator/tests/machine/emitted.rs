//! Every kind of kernel the project emits is right and clean on the simulator.

use std::time::Instant;

use crate::support::{Blocks, Case, assert_right, plan, run_own};
use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::Pattern;
use bsr_simulator::{Options, Schedule};
use proptest::prelude::*;

fn check(spec: &str, case: &Case) {
    let plan = plan(spec);
    for (schedule, seeds) in [(Schedule::Early, 1), (Schedule::Late, 1), (Schedule::Scrambled, 3)] {
        for seed in 0..seeds {
            let done = run_own(&plan, case, &Options { seed, schedule, ..Options::default() });
            assert_right(&plan, &done, &format!("{spec}, {case:?}, {schedule:?} {seed}"));
        }
    }
}

/// Every key of a spec off its default, one at a time.
#[test]
fn every_axis() {
    for spec in [
        "bm = 512, bn = 128, bk = 64, cluster = 4",
        "bm = 128, bn = 64, bk = 64, cluster = 2",
        "bm = 64, bn = 64, bk = 32, cluster = 4, b_layout = col",
        "bm = 128, bn = 64, bk = 64, consumers = 1",
        "bm = 128, bn = 64, bk = 80, consumers = 1, out = f32",
        "bm = 192, bn = 96, bk = 48, consumers = 3",
        "bm = 128, bn = 128, bk = 64, stages = 2",
        "bm = 128, bn = 64, bk = 64, stages = 8",
        "bm = 128, bn = 128, bk = 96, k_step = 32",
        "bm = 64, bn = 64, bk = 16, k_step = 128",
        "bm = 128, bn = 128, bk = 64, swizzle = 64",
        "bm = 128, bn = 128, bk = 64, swizzle = 32, b_layout = col",
        "bm = 128, bn = 32, bk = 32, schedule = strided",
        "bm = 64, bn = 16, bk = 16, c_layout = col, out = f32",
        "bm = 128, bn = 64, bk = 64, pdl = on",
        "bm = 128, bn = 64, bk = 64, pdl = early",
        "bm = 64, bn = 64, bk = 32, split = 2, pdl = early",
    ] {
        check(spec, &Case::new(330, 203, 250, Pattern::Random(0.5)));
    }
}

#[test]
fn flagship() {
    check("bm = 512, bn = 128, bk = 112", &Case::new(1024, 256, 784, Pattern::TopK(4)));
    check("bm = 512, bn = 128, bk = 112, cluster = 2", &Case::new(1024, 256, 784, Pattern::TopK(4)));
}

#[test]
fn flagship_ragged() {
    let mut case = Case::new(900, 200, 400, Pattern::TopK(2));
    case.clusters = 3;
    check("bm = 512, bn = 128, bk = 112", &case);
}

#[test]
fn square_blocks() {
    check("bm = 128, bn = 128, bk = 128", &Case::new(384, 256, 512, Pattern::Random(0.5)));
}

#[test]
fn small_blocks() {
    check("bm = 64, bn = 256, bk = 64", &Case::new(256, 300, 256, Pattern::Random(0.4)));
}

#[test]
fn narrow_k() {
    check("bm = 128, bn = 128, bk = 32", &Case::new(256, 128, 256, Pattern::TopK(3)));
}

#[test]
fn empty_rows_and_no_blocks() {
    let mut case = Case::new(384, 128, 512, Pattern::TopK(1));
    case.blocks = Blocks::Rows(vec![0, 3, 0]);
    check("bm = 128, bn = 128, bk = 128", &case);
    case.blocks = Blocks::Rows(vec![0, 0, 0]);
    check("bm = 128, bn = 128, bk = 128", &case);
}

#[test]
fn bf16_and_f32_outputs() {
    check("bm = 128, bn = 128, bk = 64, dtype = bf16", &Case::new(128, 128, 256, Pattern::TopK(2)));
    check("bm = 128, bn = 128, bk = 64, out = f32", &Case::new(128, 128, 256, Pattern::TopK(2)));
}

#[test]
fn column_major_operands() {
    check("bm = 128, bn = 128, bk = 64, b_layout = col, c_layout = col", &Case::new(256, 128, 256, Pattern::TopK(2)));
    check("bm = 128, bn = 128, bk = 64, b_layout = col", &Case::new(256, 136, 256, Pattern::TopK(2)));
}

#[test]
fn one_column() {
    check("bm = 128, bn = 128, bk = 64", &Case::new(256, 1, 256, Pattern::TopK(2)));
}

/// 50 with optimisation; a build without takes a few.
const SCHEDULES: u64 = if cfg!(debug_assertions) { 3 } else { 50 };
const SPECS: u32 = if cfg!(debug_assertions) { 6 } else { 48 };

/// The unmutated kernels report nothing in 50 schedules each.
#[test]
fn fifty_schedules() {
    let cases = [
        ("bm = 512, bn = 128, bk = 112, cluster = 2", Case::new(512, 384, 560, Pattern::TopK(3))),
        ("bm = 128, bn = 128, bk = 64, cluster = 1, out = f32", Case::new(384, 128, 320, Pattern::TopK(3))),
        ("bm = 64, bn = 128, bk = 64", Case::new(256, 256, 256, Pattern::Random(0.5))),
        ("bm = 128, bn = 256, bk = 32, dtype = bf16", Case::new(256, 300, 128, Pattern::TopK(2))),
    ];
    for (spec, case) in cases {
        let plan = plan(spec);
        for seed in 0..SCHEDULES {
            let done = run_own(&plan, &case, &Options { seed, ..Options::default() });
            assert_right(&plan, &done, &format!("{spec}, seed {seed}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: SPECS, max_shrink_iters: 8, ..ProptestConfig::default() })]

    /// Random specs, small problems: the planner refuses them or they run right.
    #[test]
    fn random_specs_run_right(
        bm in 1u32..=8, bn in 1u32..=32, bk in 1u32..=9, wide in any::<bool>(), bf16 in any::<bool>(), out in 0usize..3,
        b_col in any::<bool>(), c_col in any::<bool>(), rows in 1usize..4, n in 1usize..300, cols in 1usize..5,
        short in 0usize..40, density in 0.0f64..1.0, seed in 0u64..1000,
    ) {
        let (bm, bk) = (bm * 64, bk * 16);
        let bn = if wide { bn * 8 } else { [32, 64, 128, 256][bn as usize % 4] };
        let mut text = format!("bm = {bm}, bn = {bn}, bk = {bk}, out = {}", ["f16", "bf16", "f32"][out]);
        for (on, words) in [(bf16, ", a = bf16, b = bf16"), (b_col, ", b_layout = col"), (c_col, ", c_layout = col")] {
            if on {
                text += words;
            }
        }
        let Ok(spec) = text.parse::<KernelSpec>() else { return Ok(()) };
        let Ok(plan) = Plan::new(&spec) else { return Ok(()) };
        let (m, k) = (rows * bm as usize - short, (cols * bk as usize).saturating_sub(short / 4).max(1));
        let case = Case::new(m, n, k, Pattern::Random(density));
        let done = run_own(&plan, &case, &Options { seed, ..Options::default() });
        assert_right(&plan, &done, &format!("{text}, {case:?}, seed {seed}"));
    }
}

/// Block 512 x 112, M 1024, N 256, 4 blocks a row: prints how long it takes.
#[test]
fn speed_of_the_flagship() {
    let plan = plan("bm = 512, bn = 128, bk = 112");
    let case = Case::new(1024, 256, 784, Pattern::TopK(4));
    for races in [true, false] {
        let start = Instant::now();
        let done = run_own(&plan, &case, &Options { races, ..Options::default() });
        let took = start.elapsed().as_secs_f64();
        assert_right(&plan, &done, "flagship");
        println!(
            "races {races}: {took:.3} s for {} warp instructions and {} MFLOP",
            done.report.cost.steps,
            done.report.cost.flops / 1_000_000
        );
    }
}
