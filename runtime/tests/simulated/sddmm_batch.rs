//! Lists of SDDMMs on the simulator: a shared pattern, one each, ragged lists with nothing in some problems.

use bsr_runtime::reference::{self, Comparison};
use bsr_runtime::simulated::{Options, Simulated};
use bsr_runtime::{Bsr, Dense, Element, Layout, Pattern, Structure};
use half::f16;
use proptest::prelude::*;

use crate::kernel;

/// A problem: m, n, k, its density, and whether it has the pattern of the first, or its A.
type ListedCase = ((usize, usize, usize), f64, bool, bool);

/// Runs a list and holds every block of every problem against the reference.
///
/// # Errors
/// What is wrong, in words.
fn check<C: Element>(kernel: &Simulated, list: &[ListedCase], seed: u64) -> Result<(), String> {
    let spec = *kernel.plan().spec();
    let transposed = spec.transpose.is_on();
    let mut factors: Vec<(Dense<f16>, Dense<f16>)> = vec![];
    let mut patterns: Vec<Structure> = vec![];
    for (at, ((m, n, k), density, ..)) in list.iter().enumerate() {
        let seed = seed + 10 * at as u64;
        factors.push((Dense::normal(*m, *k, spec.a_layout, seed), Dense::normal(*k, *n, spec.b_layout, seed + 1)));
        let (rows, cols) = if transposed { (*n, *m) } else { (*m, *n) };
        let block = (spec.bm as usize, spec.bk as usize);
        patterns.push(Pattern::Random(*density).structure(rows, cols, block, seed).unwrap());
    }
    let problems: Vec<_> = (0..list.len())
        .map(|at| {
            let (shape, _, same_pattern, same_a) = list[at];
            let pattern = if same_pattern && (shape.0, shape.1) == (list[0].0.0, list[0].0.1) { 0 } else { at };
            let a = if same_a && (shape.0, shape.2) == (list[0].0.0, list[0].0.2) { 0 } else { at };
            (&factors[a].0, &factors[at].1, &patterns[pattern])
        })
        .collect();
    let options = Options { seed, ..Options::default() };
    let (results, report) =
        kernel.multiply_batch::<C, _>(problems.iter().copied(), &options).map_err(|error| error.to_string())?;
    if let Some(first) = report.findings.first() {
        return Err(format!("{spec}: {list:?}: {first}"));
    }
    for (at, (values, (a, b, structure))) in results.into_iter().zip(&problems).enumerate() {
        let want = match transposed {
            true => reference::sddmm(b.view().transposed(), a.view().transposed(), structure).unwrap(),
            false => reference::sddmm(*a, *b, structure).unwrap(),
        };
        let got: Vec<f64> = values.iter().map(|value| value.to_f64()).collect();
        let comparison = Comparison::new(&got, &want, want.len()).map_err(|error| error.to_string())?;
        if !want.is_empty() && !comparison.passes(reference::tolerance_of(&spec, a.cols())) {
            return Err(format!("{spec}: {list:?}: problem {at}: {comparison}"));
        }
        Bsr::from_structure((*structure).clone(), values).map_err(|error| format!("problem {at}: {error}"))?;
    }
    Ok(())
}

#[test]
fn lists_of_every_kind() {
    for (at, (spec, unit)) in [
        ("bm = 128, bn = 256, bk = 128", 128),
        ("bm = 128, bn = 128, bk = 64, a_layout = col, schedule = strided", 64),
        ("bm = 64, bn = 128, bk = 64, transpose = on, b_layout = col", 64),
        ("bm = 24, bn = 96, bk = 40, b_layout = col", 40),
        ("bm = 16, bn = 64, bk = 16, out = f32", 16),
        ("bm = 200, bn = 96, bk = 24, consumers = 1", 100),
        ("bm = 64, bn = 128, bk = 64, mma = mma_sync", 64),
        ("bm = 64, bn = 128, bk = 32, mma = mma_sync, load = producer, transpose = on, a_layout = col", 64),
        ("bm = 32, bn = 96, bk = 48, mma = mma_sync, load = tma, b_layout = col, out = f32", 48),
        ("bm = 48, bn = 64, bk = 64, mma = wmma, a_layout = col", 48),
    ]
    .into_iter()
    .enumerate()
    {
        let kernel = kernel(&format!("op = sdd, {spec}, batch = on")).with_clusters(3);
        let (m, n, k) = (2 * unit + 5, 3 * unit - 7, 150);
        let heads = vec![((m, n, k), 0.5, true, false); 3];
        let shared =
            vec![((m, n, k), 0.5, false, true), ((m, unit, k), 1.0, false, true), ((m, n, k), 0.1, false, true)];
        let ragged = vec![
            ((m, n, k), 0.6, false, false),
            ((1, 1, 1), 1.0, false, false),
            ((m, 7, k), 0.0, false, false),
            ((m, n, 0), 0.7, false, false),
            ((unit, 4 * unit, 700), 0.8, false, false),
            ((3 * unit, 9, 33), 0.9, false, false),
        ];
        for list in [heads, shared, ragged, vec![((m, n, 64), 1.0, false, false)]] {
            let outcome = match spec.contains("f32") {
                true => check::<f32>(&kernel, &list, at as u64),
                false => check::<f16>(&kernel, &list, at as u64),
            };
            outcome.unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_number() {
    let listed = kernel("op = sdd, bm = 64, bn = 64, bk = 64, batch = on");
    let single = kernel("op = sdd, bm = 64, bn = 64, bk = 64");
    let structure = Pattern::Random(1.0).structure(100, 150, (64, 64), 0).unwrap();
    let (a, b) = (Dense::<f16>::normal(100, 30, Layout::RowMajor, 1), Dense::normal(30, 150, Layout::RowMajor, 2));
    let short = Dense::<f16>::normal(29, 150, Layout::RowMajor, 2);
    let options = Options::default();
    let refused = |kernel: &Simulated, b: &Dense<f16>| {
        let problems = [(&a, b, &structure)];
        kernel.multiply_batch::<f16, _>(problems, &options).map(drop).expect_err("refused").to_string()
    };
    assert!(refused(&single, &b).contains("one product a launch"));
    assert!(refused(&listed, &short).contains("problem 0 of the batch: the shapes do not multiply"));
    let alone = listed.multiply::<f16, _>((&a, &b, &structure), &options).map(drop).expect_err("refused");
    assert!(alone.to_string().contains("batch = on"), "{alone}");
    let (none, report) = listed
        .multiply_batch::<f16, _>(std::iter::empty::<(&Dense<f16>, &Dense<f16>, &Structure)>(), &options)
        .unwrap();
    assert!(none.is_empty() && report.is_clean());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_list_is_right(
        (bm, bk) in (1usize..=12, 1usize..=12),
        list in prop::collection::vec(
            ((1usize..150, 1usize..150, 0usize..150), 0.0..=1.0f64, any::<bool>(), any::<bool>()), 1..5),
        (a_col, b_col, transposed, seed) in (any::<bool>(), any::<bool>(), any::<bool>(), any::<u16>()),
        ctas in 1u32..5,
    ) {
        let word = |col| if col { "col" } else { "row" };
        let spec = format!(
            "op = sdd, batch = on, bm = {}, bn = 96, bk = {}, a_layout = {}, b_layout = {}, transpose = {}",
            8 * bm, 8 * bk, word(a_col), word(b_col), if transposed { "on" } else { "off" }
        );
        let outcome = check::<f16>(&kernel(&spec).with_clusters(ctas), &list, u64::from(seed));
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}
