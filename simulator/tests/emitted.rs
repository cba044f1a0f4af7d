//! Every kind of kernel the project emits is right and clean on the simulator.
#![allow(clippy::unwrap_used)]

#[path = "common/emitted.rs"]
mod emitted;

use bsr_runtime::Pattern;
use bsr_simulator::{Options, Schedule};
use emitted::{Blocks, Case, assert_right, plan, run_own};

fn check(spec: &str, case: &Case) {
    let plan = plan(spec);
    for (schedule, seeds) in [(Schedule::Early, 1), (Schedule::Late, 1), (Schedule::Scrambled, 3)] {
        for seed in 0..seeds {
            let done = run_own(&plan, case, &Options { seed, schedule, ..Options::default() });
            assert_right(&plan, &done, &format!("{spec}, {case:?}, {schedule:?} {seed}"));
        }
    }
}

#[test]
fn flagship() {
    check("bm = 512, bn = 128, bk = 112", &Case::new(1024, 256, 784, Pattern::TopK(4)));
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
