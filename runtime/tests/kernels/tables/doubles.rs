//! f64 by `mma.sync`: every shape, layout and tail.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, block_sizes_of, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

#[test]
fn f64_by_mma_sync() {
    run_table("f64 by mma.sync", &cases());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&[cases()]);
}

#[test]
fn simulated() {
    simulate_table("f64 by mma.sync", &cases(), 3);
}

pub(super) fn all() -> Vec<Vec<Case>> {
    vec![cases()]
}

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    let mut add = |sizes: &str, rest: &str, shape| {
        cases.push(Case::new(&format!("{sizes}, mma = mma_sync, dtype = f64{rest}"), shape, Pattern("random:0.5")));
    };
    for shape in ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"] {
        for layouts in ["", ", b_layout = col", ", c_layout = col", ", b_layout = col, c_layout = col"] {
            // N is odd, and K too: half a vector at the ends.
            add("bm = 64, bn = 64, bk = 32", &format!(", shape = {shape}{layouts}"), (211, 133, 301));
        }
        add("bm = 64, bn = 64, bk = 64", &format!(", shape = {shape}, k_step = 32"), (200, 70, 333));
    }
    for arch in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"] {
        add("bm = 64, bn = 64, bk = 48", &format!(", arch = {arch}"), (211, 133, 301));
    }
    for (warps, bn) in
        [("(1, 4)", 128), ("(2, 2)", 128), ("(2, 4)", 256), ("(4, 2)", 64), ("(4, 1)", 48), ("(1, 3)", 48)]
    {
        add(&format!("bm = 64, bn = {bn}, bk = 64"), &format!(", arch = sm_90a, warps = {warps}"), (300, 301, 400));
    }
    for rest in ["stages = 2", "stages = 5", "schedule = strided", "cta_m = 16", "maxnreg = 255", "opt_level = 2"] {
        add("bm = 128, bn = 64, bk = 64", &format!(", arch = sm_90a, {rest}"), (300, 133, 500));
    }
    // Blocks side by side in a stage, and threads whose passes are over several of them.
    for layout in ["row", "col"] {
        for (bk, k_step) in [(16, 32), (16, 64), (32, 64)] {
            let rest = format!(", arch = sm_90a, k_step = {k_step}, b_layout = {layout}");
            add(&format!("bm = 32, bn = 32, bk = {bk}"), &rest, (211, 69, 301));
        }
    }
    cases.extend(block_sizes_of(
        &[8, 16, 48, 64, 96, 256],
        &[16, 32, 48, 64, 112],
        &[(64, ", mma = mma_sync, dtype = f64"), (32, ", mma = mma_sync, dtype = f64, b_layout = col")],
    ));
    cases.extend(shapes_around("bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, arch = sm_90a"));
    cases.extend(patterns_of("bm = 64, bn = 32, bk = 16, mma = mma_sync, dtype = f64, arch = sm_90a", (500, 100)));
    cases.extend(tile_counts_of("bm = 64, bn = 64, bk = 64, mma = mma_sync, dtype = f64, arch = sm_90a"));
    cases
}
