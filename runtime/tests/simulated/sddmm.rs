//! SDDMMs on the simulator: what is refused, and what a pattern of C^T means.

use bsr_runtime::simulated::{Options, Simulated};
use bsr_runtime::{Bsr, Dense, Layout, Pattern, Results, Structure, reference};
use half::f16;
use proptest::prelude::*;

use crate::kernel;

fn dense(rows: usize, cols: usize, layout: Layout) -> Dense<f16> {
    Dense::normal(rows, cols, layout, (rows + cols) as u64)
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let (row, col) = (Layout::RowMajor, Layout::ColMajor);
    let sdd = kernel("op = sdd, bm = 64, bn = 128, bk = 64");
    let pattern = |rows, cols, block| Pattern::Random(1.0).structure(rows, cols, block, 0).unwrap();
    let fits = pattern(100, 150, (64, 64));
    let options = Options::default();
    let refused = |kernel: &Simulated, a: &Dense<f16>, b: &Dense<f16>, structure: &Structure, word: &str| {
        let outcome = kernel.multiply::<f16, _>((a, b, structure), &options);
        let error = outcome.expect_err(word).to_string();
        assert!(error.contains(word) && error.contains("help: "), "{word}: {error}");
    };
    let (a, b) = (dense(100, 80, row), dense(80, 150, row));
    refused(&sdd, &a, &dense(81, 150, row), &fits, "do not multiply");
    refused(&sdd, &dense(99, 80, row), &b, &fits, "do not multiply");
    refused(&sdd, &a, &b, &pattern(150, 100, (64, 64)), "do not multiply");
    refused(&sdd, &a, &b, &pattern(100, 150, (64, 32)), "64 x 32 blocks");
    refused(&sdd, &dense(100, 80, col), &b, &fits, "a_layout = col");
    refused(&sdd, &a, &dense(80, 150, col), &fits, "b_layout = col");
    refused(&kernel("bm = 64, bn = 64, bk = 64"), &a, &b, &fits, "op = dsd");
    let wide = sdd.multiply::<f32, _>((&a, &b, &fits), &options).expect_err("f32").to_string();
    assert!(wide.contains("C is f32"), "{wide}");
    // A kernel that samples does not multiply.
    let sparse = Bsr::<f16>::normal(fits.clone(), 1);
    let error = sdd.multiply::<f16, _>((&sparse, &dense(150, 8, row)), &options).expect_err("sdd").to_string();
    assert!(error.contains("op = sdd"), "{error}");
}

#[test]
fn sums_of_nothing_are_zero_and_no_blocks_are_nothing() {
    let sdd = kernel("op = sdd, bm = 64, bn = 128, bk = 64");
    let pattern = |density| Pattern::Random(density).structure(100, 150, (64, 64), 0).unwrap();
    let (a, b) = (dense(100, 0, Layout::RowMajor), dense(0, 150, Layout::RowMajor));
    let (Results { c: values, .. }, _) = sdd.multiply::<f16, _>((&a, &b, &pattern(1.0)), &Options::default()).unwrap();
    assert!(values.len() == 6 * 64 * 64 && values.iter().all(|value| *value == f16::ZERO));
    let (a, b) = (dense(100, 9, Layout::RowMajor), dense(9, 150, Layout::RowMajor));
    let (Results { c: values, .. }, report) =
        sdd.multiply::<f16, _>((&a, &b, &pattern(0.0)), &Options::default()).unwrap();
    assert!(values.is_empty() && report.is_clean());
}

/// NaN beside a block stays out of it, and NaN in a row or column reaches every stored block there.
#[test]
fn what_lies_beside_a_block_does_not_reach_it() {
    let sdd = kernel("op = sdd, bm = 24, bn = 64, bk = 24");
    let structure = Structure::new(72, 72, (24, 24), vec![0, 1, 2, 3], vec![1, 0, 2]).unwrap();
    let a = Dense::<f16>::from_fn(72, 40, Layout::RowMajor, |row, _| if row < 24 { f16::NAN } else { f16::ONE });
    let b = dense(40, 72, Layout::RowMajor);
    let (Results { c: values, .. }, report) =
        sdd.multiply::<f16, _>((&a, &b, &structure), &Options::default()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert!(values[..24 * 24].iter().all(|value| value.is_nan()));
    assert!(values[24 * 24..].iter().all(|value| value.is_finite()));
}

/// Of what blocks are multiples, and what multiplies them.
const INSTRUCTIONS: [(usize, &str); 6] = [
    (8, ""),
    (16, ""),
    (16, ", mma = mma_sync"),
    (16, ", mma = mma_sync, load = producer"),
    (16, ", mma = mma_sync, load = tma"),
    (16, ", mma = wmma"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Any shape, any pattern, any layout: the values are those of the reference, zeros beyond the edge.
    #[test]
    fn any_shape_is_right(
        (bm, bk) in (1usize..=6, 1usize..=6),
        (m, n, k) in (1usize..200, 1usize..200, 1usize..150),
        (density, seed) in (0.0..=1.0f64, any::<u64>()),
        (a_col, b_col, transposed) in any::<(bool, bool, bool)>(),
        ctas in 1u32..5,
        (unit, instruction) in prop::sample::select(INSTRUCTIONS.to_vec()),
    ) {
        let (bm, bk) = (unit * bm, unit * bk);
        let word = |col| if col { "col" } else { "row" };
        let spec = format!(
            "op = sdd, bm = {bm}, bn = 96, bk = {bk}, a_layout = {}, b_layout = {}, transpose = {}{instruction}",
            word(a_col), word(b_col), if transposed { "on" } else { "off" }
        );
        let kernel = kernel(&spec).with_clusters(ctas);
        let layout = |col| if col { Layout::ColMajor } else { Layout::RowMajor };
        let (a, b) = (dense(m, k, layout(a_col)), dense(k, n, layout(b_col)));
        let (rows, cols) = if transposed { (n, m) } else { (m, n) };
        let structure = Pattern::Random(density).structure(rows, cols, (bm, bk), seed).unwrap();
        let want = match transposed {
            true => reference::sddmm(b.view().transposed(), a.view().transposed(), &structure).unwrap(),
            false => reference::sddmm(&a, &b, &structure).unwrap(),
        };
        let options = Options { seed, ..Options::default() };
        let (Results { c: values, .. }, report) = kernel.multiply::<f16, _>((&a, &b, &structure), &options).unwrap();
        prop_assert!(report.is_clean(), "{spec}: {:?}", report.findings);
        let got: Vec<f64> = values.iter().map(|value| value.to_f64()).collect();
        if !want.is_empty() {
            let error = reference::relative_error(&got, &want);
            prop_assert!(error < 1e-3, "{spec}, {m} x {n} x {k}: {error}");
        }
        // As a matrix: what extends beyond the edge is zero.
        prop_assert!(Bsr::from_structure(structure, values).is_ok());
    }
}
