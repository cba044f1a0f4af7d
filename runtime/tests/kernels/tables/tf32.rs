//! f32 factors in TF32 by `mma.sync`: every layout, result type and tail.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around};

use Blocks::Pattern;

const FAMILY: &str = "mma = mma_sync, dtype = f32, tf32 = on";

#[test]
fn tf32_by_mma_sync() {
    run_table("TF32 by mma.sync", &cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&[cases()]);
}

#[test]
fn simulated() {
    simulate_table("TF32 by mma.sync", &cases(), 3);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![cases()]
}

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |sizes: &str, rest: &str, shape| {
        cases.push(Case::new(&format!("{sizes}, {FAMILY}{rest}"), shape, Pattern("random:0.5")));
    };
    for out in ["f32", "f16", "bf16"] {
        for layouts in ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"] {
            add("bm = 64, bn = 64, bk = 48", &format!(", out = {out}{layouts}"), (211, 133, 301));
        }
    }
    for arch in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"] {
        add("bm = 64, bn = 96, bk = 48", &format!(", arch = {arch}"), (211, 133, 301));
    }
    for (warps, bn) in
        [("(1, 4)", 128), ("(2, 2)", 128), ("(2, 4)", 256), ("(4, 2)", 64), ("(4, 1)", 32), ("(1, 3)", 96)]
    {
        add(&format!("bm = 64, bn = {bn}, bk = 64"), &format!(", warps = {warps}"), (300, 301, 400));
    }
    for rest in ["stages = 2", "stages = 5", "schedule = strided", "cta_m = 16", "maxnreg = 255", "opt_level = 2"] {
        add("bm = 128, bn = 64, bk = 64", &format!(", {rest}"), (300, 133, 500));
    }
    for layout in ["row", "col"] {
        for (bk, k_step) in [(16, 32), (16, 64), (32, 64), (64, 16)] {
            let rest = format!(", k_step = {k_step}, b_layout = {layout}");
            add(&format!("bm = 32, bn = 32, bk = {bk}"), &rest, (211, 69, 301));
        }
    }
    let (rows, columns) = (format!(", {FAMILY}"), format!(", {FAMILY}, b_layout = col"));
    cases.extend(block_sizes_of(
        &[16, 48, 64, 96, 256],
        &[16, 32, 48, 64, 112],
        &[(64, rows.as_str()), (48, columns.as_str())],
    ));
    cases.extend(shapes_around(&format!("bm = 64, bn = 64, bk = 64, {FAMILY}")));
    cases.extend(patterns_of(&format!("bm = 64, bn = 32, bk = 16, {FAMILY}"), (500, 100)));
    cases
}
