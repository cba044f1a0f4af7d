//! Products of two block-sparse matrices on the simulator: any shape and pattern, what is written where nothing is multiplied,
//! epilogues, and what is refused.

use bsr_codegen::Dtype;
use bsr_runtime::simulated::{Options, Schedule, Simulated};
use bsr_runtime::{Bsr, Dense, Element, Inputs, Layout, Pattern, Structure, e4m3, reference};
use half::{bf16, f16};
use proptest::prelude::*;

use crate::kernel;

const ROW: Layout = Layout::RowMajor;

fn blocks(rows: usize, cols: usize, block: (usize, usize), density: f64, seed: u64) -> Bsr<f16> {
    Bsr::generate(Pattern::Random(density), rows, cols, block, seed).unwrap()
}

/// The values of the blocks of a product.
fn want(a: &Bsr<f16>, b: &Bsr<f16>, c: &Structure) -> Vec<f64> {
    reference::sddmm(&a.to_dense(ROW), &b.to_dense(ROW), c).unwrap()
}

fn widened(values: &[f16]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    /// C is poisoned before: a dense one is right in every element, one in blocks in every value, zeros beyond the edge.
    #[test]
    fn any_shape_and_pattern_is_right(
        (bm, bn, bk) in (0usize..3, 0usize..4, 0usize..5),
        (m, n, k) in (1usize..300, 1usize..150, 1usize..200),
        densities in (0.0..=1.0f64, 0.0..=1.0f64, 0.0..=1.0f64),
        (seed, clusters) in (0u64..1000, 1u32..5),
        knobs in 0usize..5,
    ) {
        let (bm, bn, bk) = ([64, 128, 256][bm], [16, 32, 64, 96][bn], [16, 24, 32, 64, 80][bk]);
        let knobs = ["", ", split = 2", ", stages = 2, schedule = strided", ", pdl = early", ", b_layout = col"][knobs];
        let (a, b) = (blocks(m, k, (bm, bk), densities.0, seed), blocks(k, n, (bk, bn), densities.1, seed + 1));
        let options = Options { schedule: Schedule::Scrambled, seed, ..Options::default() };
        let spec = |op| format!("op = {op}, bm = {bm}, bn = {bn}, bk = {bk}{knobs}");
        let dense = kernel(&spec("dss")).with_clusters(clusters);
        let (results, report) = dense.multiply::<f16, _>((&a, &b), &options).unwrap();
        prop_assert!(report.is_clean(), "{}: {:?}", spec("dss"), report.findings);
        let product = reference::multiply(&a, &b.to_dense(ROW)).unwrap();
        let got = results.c.to_f64();
        prop_assert!(reference::relative_error(&got, &product) < 1e-3 || product.iter().all(|value| *value == 0.0));
        prop_assert!(got.iter().zip(&product).all(|(got, want)| (got - want).abs() <= 0.02 * want.abs().max(8.0)));

        let c = Pattern::Random(densities.2).structure(m, n, (bm, bn), seed + 2).unwrap();
        for c in [c, a.structure().product(b.structure()).unwrap()] {
            let sparse = kernel(&spec("sss")).with_clusters(clusters);
            let (results, report) = sparse.multiply::<f16, _>((&a, &b, &c), &options).unwrap();
            prop_assert!(report.is_clean(), "{}: {:?}", spec("sss"), report.findings);
            let (got, want) = (widened(&results.c), want(&a, &b, &c));
            prop_assert!(got.iter().zip(&want).all(|(got, want)| (got - want).abs() <= 0.02 * want.abs().max(8.0)));
            prop_assert!(Bsr::from_structure(c, results.c).is_ok());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// Of 8-bit factors the blocks of B lie column by column, which is the launcher's business.
    #[test]
    fn any_shape_of_8_bits_is_right(
        (bm, bn, bk) in (0usize..2, 0usize..4, 0usize..5),
        (m, n, k) in (1usize..300, 1usize..150, 1usize..300),
        densities in (0.0..=1.0f64, 0.0..=1.0f64, 0.0..=1.0f64),
        (seed, clusters) in (0u64..1000, 1u32..5),
        knobs in 0usize..5,
    ) {
        let (bm, bn, bk) = ([64, 128][bm], [16, 32, 64, 96][bn], [16, 48, 64, 96, 128][bk]);
        let knobs = ["", "out = f16, split = 2", "out = f32, accumulate = promoted", "pdl = early", "pack = 2"][knobs];
        let knobs = if knobs == "pack = 2" && bk < 64 { "" } else { knobs };
        let a = Bsr::<e4m3>::generate(Pattern::Random(densities.0), m, k, (bm, bk), seed).unwrap();
        let b = Bsr::<e4m3>::generate(Pattern::Random(densities.1), k, n, (bk, bn), seed + 1).unwrap();
        let c = Pattern::Random(densities.2).structure(m, n, (bm, bn), seed + 2).unwrap();
        let options = Options { schedule: Schedule::Scrambled, seed, ..Options::default() };
        for op in ["dss", "sss"] {
            let text = format!("op = {op}, bm = {bm}, bn = {bn}, bk = {bk}, dtype = e4m3, {knobs}");
            let kernel = kernel(text.trim_end_matches([',', ' '])).with_clusters(clusters);
            let wrong = match kernel.plan().spec().out {
                Dtype::F16 => wrong::<f16>(&kernel, (&a, &b), &c, &options),
                Dtype::F32 => wrong::<f32>(&kernel, (&a, &b), &c, &options),
                _ => wrong::<bf16>(&kernel, (&a, &b), &c, &options),
            };
            prop_assert!(wrong.is_none(), "{}: {:?}", text, wrong);
        }
    }
}

/// What is wrong with a product, if something is.
fn wrong<C: Element>(
    kernel: &Simulated,
    (a, b): (&Bsr<e4m3>, &Bsr<e4m3>),
    c: &Structure,
    options: &Options,
) -> Option<String> {
    let (spec, none, right) = (kernel.plan().spec(), Inputs::new(), b.to_dense(ROW));
    let (judged, report) = if spec.op.stores_blocks() {
        let all: Vec<usize> = (0..c.nnzb()).collect();
        let want = reference::expected_blocks(spec, &a.to_dense(ROW), &right, c, &all, &none).unwrap();
        let (results, report) = kernel.multiply::<C, _>((a, b, c), options).unwrap();
        (want.verify_blocks(&results.c, None).err(), report)
    } else {
        let rows: Vec<usize> = (0..a.rows()).collect();
        let want = reference::expected(spec, a, &right, &none, &rows, a.cols()).unwrap();
        let (results, report) = kernel.multiply::<C, _>((a, b), options).unwrap();
        (want.verify(&results.c, None).err(), report)
    };
    let finding = report.findings.first().map(ToString::to_string);
    judged.map(|error| error.to_string()).or(finding)
}

/// Tiles of several blocks of C: whatever takes part in a stage, results are those of a dense factor.
#[test]
fn blocks_that_share_a_tile_are_right() {
    for (seed, (spec, (m, n, k), density)) in [
        ("op = dss, bm = 64, bn = 64, bk = 64, pack = 4", (700, 450, 400), 0.3),
        ("op = dss, bm = 64, bn = 64, bk = 32, pack = 3", (333, 129, 200), 0.5),
        ("op = dss, bm = 64, bn = 64, bk = 64, pack = 4", (64, 64, 64), 1.0),
        ("op = dss, bm = 64, bn = 64, bk = 64, pack = 2", (300, 300, 300), 0.0),
        ("op = dss, bm = 128, bn = 128, bk = 128, pack = 2", (400, 300, 600), 0.5),
        ("op = sss, bm = 128, bn = 128, bk = 128, pack = 2", (400, 300, 600), 0.5),
        ("op = sss, bm = 64, bn = 64, bk = 64, pack = 3", (400, 300, 400), 0.3),
        ("op = sss, bm = 64, bn = 64, bk = 64, pack = 4", (450, 333, 400), 0.3),
        ("op = sss, bm = 64, bn = 32, bk = 48, pack = 2", (129, 100, 97), 1.0),
    ]
    .into_iter()
    .enumerate()
    {
        let kernel = kernel(spec).with_clusters(3);
        let of = *kernel.plan().spec();
        let [bm, bn, bk] = [of.bm, of.bn, of.bk].map(|side| side as usize);
        let seed = seed as u64;
        let (a, b) = (blocks(m, k, (bm, bk), density, seed), blocks(k, n, (bk, bn), density, seed + 50));
        let options = Options { schedule: Schedule::Scrambled, seed, ..Options::default() };
        let close = |got: &[f64], want: &[f64]| {
            let mut both = got.iter().zip(want);
            assert!(both.all(|(got, want)| (got - want).abs() <= 0.02 * want.abs().max(8.0)), "{spec}");
        };
        if of.op.stores_blocks() {
            let c = Pattern::Random(0.6).structure(m, n, (bm, bn), seed + 2).unwrap();
            let (results, report) = kernel.multiply::<f16, _>((&a, &b, &c), &options).unwrap();
            assert!(report.is_clean(), "{spec}: {:?}", report.findings);
            close(&widened(&results.c), &want(&a, &b, &c));
        } else {
            let (results, report) = kernel.multiply::<f16, _>((&a, &b), &options).unwrap();
            assert!(report.is_clean(), "{spec}: {:?}", report.findings);
            close(&results.c.to_f64(), &reference::multiply(&a, &b.to_dense(ROW)).unwrap());
        }
    }
}

#[test]
fn blocks_of_c_without_a_pair_are_zero() {
    let [dense, sparse] = ["dss", "sss"].map(|op| kernel(&format!("op = {op}, bm = 64, bn = 32, bk = 32")));
    let [a, b] = [blocks(200, 96, (64, 32), 0.6, 1), blocks(96, 100, (32, 32), 0.6, 2)];
    let (no_a, no_b) = (blocks(200, 96, (64, 32), 0.0, 1), blocks(96, 100, (32, 32), 0.0, 2));
    let full = Pattern::Random(1.0).structure(200, 100, (64, 32), 0).unwrap();
    for (a, b) in [(&no_a, &b), (&a, &no_b), (&no_a, &no_b)] {
        let (results, report) = dense.multiply::<f16, _>((a, b), &Options::default()).unwrap();
        assert!(report.is_clean() && results.c.to_f64().iter().all(|value| *value == 0.0), "{:?}", report.findings);
        let (results, report) = sparse.multiply::<f16, _>((a, b, &full), &Options::default()).unwrap();
        assert!(report.is_clean() && results.c.iter().all(|value| *value == f16::ZERO));
        assert_eq!(a.structure().product(b.structure()).unwrap().nnzb(), 0);
    }
    let none = Structure::empty(200, 100, (64, 32)).unwrap();
    let (results, report) = sparse.multiply::<f16, _>((&a, &b, &none), &Options::default()).unwrap();
    assert!(report.is_clean() && results.c.is_empty());
    // K = 0.
    let (thin, flat) = (blocks(200, 0, (64, 32), 0.0, 1), blocks(0, 100, (32, 32), 0.0, 2));
    let (results, _) = dense.multiply::<f16, _>((&thin, &flat), &Options::default()).unwrap();
    assert!(results.c.to_f64().iter().all(|value| *value == 0.0));
}

/// Rows and columns of an epilogue are those of C, wherever the pairs of a tile are in the list.
#[test]
fn an_epilogue_is_of_c() {
    let [a, b] = [blocks(200, 96, (64, 32), 0.6, 1), blocks(96, 200, (32, 64), 0.6, 2)];
    let right = b.to_dense(ROW);
    for text in [
        "epilogue = \"|bias: Rows<f32>, gate: Cols<f32>, alpha: f32| (alpha * acc * gate + bias, row_max(acc))\"",
        "epilogue = \"|x: Dense<f16>, bias: Cols<f32>| relu(acc + bias) * x\"",
        "beta = on, c_layout = col",
    ] {
        let kernel = kernel(&format!("op = dss, bm = 64, bn = 64, bk = 32, {text}"));
        let spec = kernel.plan().spec();
        let inputs = Inputs::random(spec.epilogue.unwrap().program(), (200, 200), spec.c_layout, 3);
        let rows: Vec<usize> = (0..200).collect();
        let expected = reference::expected(spec, &a, &right, &inputs, &rows, 96).unwrap();
        let (results, report) = kernel.multiply::<f16, _>((&a, &b, &inputs), &Options::default()).unwrap();
        assert!(report.is_clean(), "{text}: {:?}", report.findings);
        expected.verify(&results.c, results.rows.as_deref()).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let c = Pattern::Random(0.5).structure(200, 200, (64, 64), 4).unwrap();
    for text in ["beta = on", "epilogue = \"|x: Bsr<f16>, alpha: f32| alpha * acc + x\""] {
        let kernel = kernel(&format!("op = sss, bm = 64, bn = 64, bk = 32, {text}"));
        let spec = kernel.plan().spec();
        let inputs = Inputs::random_blocks(spec.epilogue.unwrap().program(), &c, 3);
        let all: Vec<usize> = (0..c.nnzb()).collect();
        let expected = reference::expected_blocks(spec, &a.to_dense(ROW), &right, &c, &all, &inputs).unwrap();
        let (results, report) = kernel.multiply::<f16, _>((&a, &b, &c, &inputs), &Options::default()).unwrap();
        assert!(report.is_clean(), "{text}: {:?}", report.findings);
        expected.verify_blocks(&results.c, None).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let [dense, sparse] = ["dss", "sss"].map(|op| kernel(&format!("op = {op}, bm = 64, bn = 32, bk = 32")));
    let [a, b] = [blocks(200, 96, (64, 32), 0.6, 1), blocks(96, 100, (32, 32), 0.6, 2)];
    let options = Options::default();
    let refused = |a: &Bsr<f16>, b: &Bsr<f16>, c: Option<&Structure>, word: &str| {
        let error = match c {
            Some(c) => sparse.multiply::<f16, _>((a, b, c), &options).expect_err(word).to_string(),
            None => dense.multiply::<f16, _>((a, b), &options).expect_err(word).to_string(),
        };
        assert!(error.contains(word) && error.contains("help: "), "{word}: {error}");
    };
    refused(&blocks(200, 96, (32, 32), 0.6, 1), &b, None, "32 x 32 blocks");
    refused(&a, &blocks(96, 100, (32, 64), 0.6, 2), None, "B has 32 x 64 blocks");
    refused(&a, &blocks(97, 100, (32, 32), 0.6, 2), None, "do not multiply");
    let pattern = |rows, cols, block| Pattern::Random(1.0).structure(rows, cols, block, 0).unwrap();
    refused(&a, &b, Some(&pattern(200, 101, (64, 32))), "do not multiply");
    refused(&a, &b, Some(&pattern(200, 100, (64, 64))), "C has 64 x 64 blocks");
    let wide = dense.multiply::<f32, _>((&a, &b), &options).expect_err("f32").to_string();
    assert!(wide.contains("C is f32"), "{wide}");
    let whole = Dense::<f16>::normal(96, 100, ROW, 1);
    let error = dense.multiply::<f16, _>((&a, &whole), &options).expect_err("dense").to_string();
    assert!(error.contains("op = dss: A and B are block-sparse"), "{error}");
    let plain =
        kernel("bm = 64, bn = 32, bk = 32").multiply::<f16, _>((&a, &b), &options).expect_err("dsd").to_string();
    assert!(plain.contains("op = dsd"), "{plain}");
    let full = pattern(200, 100, (64, 32));
    let error = dense.multiply::<f16, _>((&a, &b, &full), &options).expect_err("pattern").to_string();
    assert!(error.contains("op = dss, and writes a dense result"), "{error}");
    let error = sparse.multiply::<f16, _>((&a, &b), &options).expect_err("no pattern").to_string();
    assert!(error.contains("op = sss"), "{error}");
}
