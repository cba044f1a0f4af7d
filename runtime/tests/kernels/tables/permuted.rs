//! Rows of C in an order of the launch, in both of Hopper's families with a sparse left factor.

use crate::case::{Blocks, Case};
use crate::run::run_table;
use crate::simulate::simulate_table;

use super::{assert_launchable, patterns_of, shapes_around, tile_counts_of};

use Blocks::Pattern;

/// Every width of a line in staging, type of C, and way to split a tile over consumers; rows that are folded, packed and
/// cut into slices.
const SPECS: [&str; 20] = [
    "bm = 128, bn = 128, bk = 64, permute = on",
    "bm = 64, bn = 16, bk = 16, dtype = bf16, permute = on",
    "bm = 64, bn = 32, bk = 32, permute = on",
    "bm = 64, bn = 16, bk = 64, out = f32, consumers = 1, permute = on",
    "bm = 128, bn = 96, bk = 64, out = f32, permute = on",
    "bm = 512, bn = 128, bk = 112, cluster = 2, permute = on",
    "bm = 192, bn = 192, bk = 48, consumers = 3, permute = on",
    "bm = 64, bn = 512, bk = 64, dtype = bf16, b_layout = col, permute = on",
    "bm = 64, bn = 64, bk = 64, dtype = e4m3, out = e4m3, permute = on",
    "bm = 128, bn = 128, bk = 128, dtype = e4m3, scale = row_col, permute = on",
    "bm = 128, bn = 128, bk = 64, dtype = i8, permute = on",
    "bm = 128, bn = 64, bk = 64, permute = on, epilogue = \"|bias: Cols<f32>, s: f32| gelu(s * acc + bias)\"",
    "bm = 32, bn = 256, bk = 32, permute = on",
    "bm = 8, bn = 64, bk = 24, pack = 1, permute = on",
    "bm = 24, bn = 128, bk = 40, dtype = bf16, permute = on",
    "bm = 40, bn = 64, bk = 16, out = f32, permute = on",
    "bm = 200, bn = 256, bk = 48, permute = on",
    "bm = 32, bn = 64, bk = 64, dtype = i8, permute = on",
    "bm = 48, bn = 192, bk = 32, dtype = e4m3, permute = on",
    "bm = 16, bn = 128, bk = 16, permute = on, epilogue = \"|bias: Cols<bf16>, s: f32| relu(acc + s * bias)\"",
];

#[test]
fn permuted() {
    run_table("rows in an order", &all());
}

#[test]
fn every_row_can_be_launched() {
    assert_launchable(&[all()]);
}

#[test]
fn simulated() {
    simulate_table("rows in an order", &all(), 3);
}

pub(super) fn all() -> Vec<Case> {
    let mut cases: Vec<Case> =
        SPECS.iter().map(|spec| Case::new(spec, (411, 333, 521), Pattern("random:0.4"))).collect();
    for spec in [SPECS[0], SPECS[12], SPECS[15]] {
        cases.extend(shapes_around(spec));
        cases.extend(patterns_of(spec, (500, 100)));
        cases.extend(tile_counts_of(spec));
    }
    cases
}
