//! Epilogues of SDDMMs on the simulator, into blocks full of poison: every kind of parameter, both second
//! results, at any edge.

use bsr_codegen::{Dtype, KernelSpec};
use bsr_runtime::epilogue::Input;
use bsr_runtime::reference::{self, Comparison, Fused};
use bsr_runtime::simulated::{Options, Simulated};
use bsr_runtime::{Bsr, Dense, Element, Inputs, Layout, Pattern, Structure};
use half::{bf16, f16};
use proptest::prelude::*;
use proptest::sample::select;

use crate::kernel;

/// Random inputs; blocks of the name `c` are those of C itself.
fn inputs(spec: &KernelSpec, structure: &Structure, seed: u64) -> Inputs {
    let drawn = Inputs::random_blocks(spec.epilogue.unwrap().program(), structure, seed);
    match drawn.get("c").cloned() {
        Some(Input::Blocks(blocks)) => drawn.held("c", blocks),
        _ => drawn,
    }
}

fn want<A: Element>(
    spec: &KernelSpec,
    (a, b): (&Dense<A>, &Dense<A>),
    structure: &Structure,
    inputs: &Inputs,
) -> Fused {
    let sums = match spec.transpose.is_on() {
        true => reference::sddmm(b.view().transposed(), a.view().transposed(), structure).unwrap(),
        false => reference::sddmm(a, b, structure).unwrap(),
    };
    let blocks: Vec<usize> = (0..structure.nnzb()).collect();
    reference::fuse_blocks(spec, sums, structure, &blocks, a.cols(), inputs).unwrap()
}

/// Runs a kernel and holds blocks and rows against the reference.
///
/// # Errors
/// What is wrong, in words.
fn check<A: Element, C: Element>(
    kernel: &Simulated,
    (m, n, k): (usize, usize, usize),
    pattern: Pattern,
    seed: u64,
) -> Result<(), String> {
    let spec = *kernel.plan().spec();
    let (a, b) = (Dense::<A>::normal(m, k, spec.a_layout, seed), Dense::<A>::normal(k, n, spec.b_layout, seed + 1));
    let (rows, cols) = if spec.transpose.is_on() { (n, m) } else { (m, n) };
    let structure = pattern.structure(rows, cols, (spec.bm as usize, spec.bk as usize), seed).unwrap();
    let inputs = inputs(&spec, &structure, seed + 2);
    let want = want(&spec, (&a, &b), &structure, &inputs);
    let options = Options { seed, ..Options::default() };
    let run = kernel.multiply::<C, _>((&a, &b, &structure, &inputs), &options);
    let (results, report) = run.map_err(|error| error.to_string())?;
    let place = format!("{spec}; {m} x {n} x {k}, {pattern:?}, seed {seed}");
    if let Some(first) = report.findings.first() {
        return Err(format!("{place}: {first}"));
    }
    let got: Vec<f64> = results.c.iter().map(|value| value.to_f64()).collect();
    let of_c = Comparison::new(&got, &want.c, want.c.len()).unwrap();
    if !want.c.is_empty() && !of_c.passes(want.tolerance) {
        return Err(format!("{place}: {of_c}, tolerance {:.1e}", want.tolerance));
    }
    let of_rows = want.compare_rows(results.rows.as_deref()).map_err(|error| error.to_string())?;
    if !of_rows.passes(want.rows_tolerance()) {
        return Err(format!("{place}: rows: {of_rows}, tolerance {:.1e}", want.rows_tolerance()));
    }
    // As a matrix: what extends beyond the edge is zero, whatever the epilogue makes of it.
    Bsr::from_structure(structure, results.c).map(drop).map_err(|error| format!("{place}: {error}"))
}

fn check_types(spec: &str, ctas: u32, shape: (usize, usize, usize), pattern: Pattern, seed: u64) -> Result<(), String> {
    let kernel = kernel(spec).with_clusters(ctas);
    match (kernel.plan().spec().a, kernel.plan().spec().out) {
        (Dtype::F16, Dtype::F16) => check::<f16, f16>(&kernel, shape, pattern, seed),
        (Dtype::F16, Dtype::F32) => check::<f16, f32>(&kernel, shape, pattern, seed),
        (Dtype::I8, Dtype::F16) => check::<i8, f16>(&kernel, shape, pattern, seed),
        _ => check::<bf16, bf16>(&kernel, shape, pattern, seed),
    }
}

/// Epilogues that are no zero where there is nothing, so that what extends beyond the edge would show.
const EPILOGUES: [&str; 8] = [
    "|bias: Rows<f32>, gate: Cols<bf16>, s: f32| s * acc + bias * gate + 1",
    "|| (acc + 1, row_sum(acc + 1))",
    "|low: Cols<f32>| (sigmoid(acc), row_max(acc + low))",
    "|mask: Bsr<T>, alpha: f32| alpha * acc * mask + 2",
    "|c: Bsr<T>, beta: f32| acc + beta * c",
    "|mask: Bsr<T>, bias: Rows<f16>| (acc + mask + bias + 1, row_max(acc * mask))",
    "|mask: Bsr<T>, gate: Cols<f32>| (tanh(acc) + 3, row_sum(mask * gate + 1))",
    "|x: Rows<bf16>| (1 / (1 + x * x), row_sum(relu(acc)))",
];

#[test]
fn tiles_of_every_kind_have_epilogues() {
    for (at, (spec, shape)) in [
        ("bm = 128, bn = 256, bk = 128", (300, 400, 130)),
        ("bm = 128, bn = 256, bk = 64, schedule = balanced", (200, 330, 900)),
        ("bm = 64, bn = 128, bk = 64, transpose = on, b_layout = col", (190, 70, 40)),
        ("bm = 24, bn = 96, bk = 40, b_layout = col", (100, 130, 70)),
        ("bm = 16, bn = 64, bk = 16, out = f32", (70, 90, 50)),
        ("bm = 8, bn = 64, bk = 264, a_layout = col", (50, 500, 30)),
        ("bm = 200, bn = 96, bk = 24, dtype = bf16", (333, 100, 64)),
        ("bm = 72, bn = 64, bk = 72, out = f32, schedule = balanced", (150, 150, 700)),
        ("bm = 40, bn = 256, bk = 8, consumers = 1", (90, 60, 33)),
        ("bm = 192, bn = 256, bk = 96, consumers = 1, stages = 3", (250, 200, 65)),
        ("bm = 32, bn = 128, bk = 32, dtype = i8, out = f16", (100, 100, 100)),
    ]
    .into_iter()
    .enumerate()
    {
        for (number, epilogue) in EPILOGUES.into_iter().enumerate() {
            // Sums of i8 are beyond what an f16 holds.
            let epilogue =
                if spec.contains("i8") { epilogue.replace("acc", "(0.001 * acc)") } else { epilogue.to_owned() };
            let t = if spec.contains("bf16") {
                "bf16"
            } else if spec.contains("f32") {
                "f32"
            } else {
                "f16"
            };
            let text = format!("op = sdd, {spec}, epilogue = \"{}\"", epilogue.replace("<T>", &format!("<{t}>")));
            check_types(&text, 3, shape, Pattern::Random(0.5), (8 * at + number) as u64)
                .unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

#[test]
fn rows_without_blocks_collect_nothing_and_full_rows_all() {
    for epilogue in ["|| (acc, row_sum(acc + 1))", "|| (acc, row_max(acc))"] {
        for (bm, bk) in [(16, 16), (64, 32), (80, 24)] {
            for pattern in [Pattern::Random(0.0), Pattern::Random(1.0), Pattern::Random(0.15)] {
                let text = format!("op = sdd, bm = {bm}, bn = 64, bk = {bk}, epilogue = \"{epilogue}\"");
                check_types(&text, 2, (170, 130, 40), pattern, 5).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}

#[test]
fn an_epilogue_of_no_sums_is_still_applied() {
    let text = "op = sdd, bm = 64, bn = 64, bk = 32, epilogue = \"|bias: Rows<f32>| (acc + bias, row_sum(acc + 1))\"";
    check_types(text, 2, (100, 70, 0), Pattern::Random(0.7), 3).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn inputs_that_do_not_fit_are_refused_by_name() {
    let kernel = kernel(
        "op = sdd, bm = 64, bn = 64, bk = 64, epilogue = \"|mask: Bsr<f16>, bias: Cols<f32>| (acc * mask + bias, row_sum(acc))\"",
    );
    let structure = Pattern::Random(1.0).structure(100, 150, (64, 64), 0).unwrap();
    let (a, b) =
        (Dense::<f16>::normal(100, 30, Layout::RowMajor, 1), Dense::<f16>::normal(30, 150, Layout::RowMajor, 2));
    let fits =
        || Inputs::new().blocks("mask", Bsr::<f16>::normal(structure.clone(), 1)).vector("bias", vec![0.0_f32; 150]);
    let run = |inputs: &Inputs| {
        let run = kernel.multiply::<f16, _>((&a, &b, &structure, inputs), &Options::default());
        run.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(run(&fits()), Ok(()));
    let other = Structure::new(100, 150, (64, 64), vec![0, 2, 5], vec![0, 2, 0, 1, 2]).unwrap();
    for (inputs, facts) in [
        (Inputs::new(), ["reads `mask`, which is not given", "`(&a, &b, NAME_inputs { .. })`"]),
        (fits().vector("bias", vec![0.0_f32; 100]), ["a vector of 100 f32", "a 100 x 150 C is a vector of 150 f32"]),
        (
            fits().blocks("mask", Bsr::<f16>::normal(other, 1)),
            ["another shape or pattern", "values of f16 of C's blocks"],
        ),
        (fits().blocks("mask", Bsr::<bf16>::normal(structure.clone(), 1)), ["bf16 of C's blocks", "f16 of C's blocks"]),
        (fits().matrix("mask", Dense::<f16>::zeros(100, 150, Layout::RowMajor)), ["100 x 150 matrix", "of C's blocks"]),
    ] {
        let refused = run(&inputs).expect_err(facts[0]);
        assert!(facts.iter().all(|fact| refused.contains(fact)), "{facts:?} are not in: {refused}");
    }
    let plain = kernel.multiply::<f16, _>((&a, &b, &structure), &Options::default()).map(drop).unwrap_err();
    assert!(plain.to_string().contains("`mask`, which is not given"), "{plain}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_is_right(
        (bm, bk, bn) in (1usize..=17, 1usize..=17, 3usize..=32),
        shape in (1usize..200, 1usize..200, 0usize..150),
        (density, seed) in (0.0..=1.0f64, any::<u32>()),
        (a_col, b_col, transposed, wide) in any::<(bool, bool, bool, bool)>(),
        epilogue in select(&EPILOGUES[..]),
        ctas in 1u32..5,
    ) {
        let word = |col| if col { "col" } else { "row" };
        let (out, t) = if wide { (", out = f32", "<f32>") } else { ("", "<f16>") };
        let spec = format!(
            "op = sdd, bm = {}, bn = {}, bk = {}, a_layout = {}, b_layout = {}, transpose = {}{out}, epilogue = \"{}\"",
            8 * bm, 8 * bn, 8 * bk, word(a_col), word(b_col), if transposed { "on" } else { "off" },
            epilogue.replace("<T>", t)
        );
        let outcome = check_types(&spec, ctas, shape, Pattern::Random(density), u64::from(seed));
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}
