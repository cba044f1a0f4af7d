#![allow(clippy::unwrap_used)]

mod measured;
mod warps;

use bsr_codegen::{KernelSpec, Mma};
use bsr_runtime::Pattern;

use proptest::prelude::*;

use super::fit::{CONSTANTS, Row, fitted};
use super::*;
use crate::search::rank_correlation;
use crate::{Facts, Source, Space, Workload};
use measured::{FLAGSHIP, MEASURED, SMALL};

fn problem(spec: &KernelSpec, [m, n, k]: [usize; 3], pattern: &str) -> TuningProblem {
    let block = (spec.bm as usize, spec.bk as usize);
    let (rows, cols) = match spec.op {
        bsr_codegen::Op::Dds => (k, n),
        bsr_codegen::Op::Dsd if spec.transpose.is_on() => (k, m),
        bsr_codegen::Op::Dsd => (m, k),
        _ => (m, n),
    };
    let structure = pattern.parse::<Pattern>().unwrap().structure(rows, cols, block, 0).unwrap();
    let source = Source::Pattern(pattern.to_owned());
    TuningProblem::new(Workload { facts: Facts::of(spec), m, n, k, source, seed: 0 }, &structure)
}

pub(super) fn rows() -> Vec<Row> {
    let row = |&(spec, size, pattern, tflops): &(&str, [usize; 3], &str, f64)| {
        let spec: KernelSpec = spec.parse().unwrap();
        let plan = Plan::new(&spec).unwrap_or_else(|errors| panic!("{spec}: {errors}"));
        let problem = problem(&spec, size, pattern);
        let us = problem.executed_flops() as f64 / (tflops * 1e6);
        Row::new(plan, problem, us, &Card::h200())
    };
    MEASURED.iter().map(row).collect()
}

impl Row {
    fn tflops(&self, us: f64) -> f64 {
        self.problem.executed_flops() as f64 / (us * 1e6)
    }
}

/// Absolute errors in ascending order, at parts of the list.
fn quantiles(logs: &[f64]) -> [f64; 3] {
    let mut errors: Vec<f64> = logs.iter().map(|log| log.exp_m1().abs()).collect();
    errors.sort_by(f64::total_cmp);
    [0.5, 0.9, 1.0].map(|part| errors[((errors.len() - 1) as f64 * part) as usize])
}

#[test]
fn measured_times_are_met_and_sorted() {
    let rows = rows();
    let mut logs = Vec::new();
    for row in &rows {
        let predicted = predict(&row.plan, &row.problem, &Card::h200());
        let terms: Vec<String> =
            predicted.terms.iter().map(|term| format!("{} {:.0}", term.what.as_str(), term.us)).collect();
        let ratio = predicted.us / row.us;
        eprintln!("{ratio:.3} of {:>7.1} us: {} [{}]", row.us, row.plan.spec(), terms.join(", "));
        logs.push(ratio.ln());
    }
    let rate = |us: &dyn Fn(&Row) -> f64| rows.iter().map(|row| row.tflops(us(row))).collect::<Vec<f64>>();
    let measured = rate(&|row| row.us);
    let predicted = rate(&|row| predict(&row.plan, &row.problem, &Card::h200()).us);
    let rank = rank_correlation(&predicted, &measured).unwrap();
    let [median, most, worst] = quantiles(&logs);
    eprintln!(
        "{} rows: rank correlation of TFLOP/s {rank:.3}, error median {median:.3}, 0.9 {most:.3}, worst {worst:.3}",
        rows.len()
    );
    assert!(rank >= 0.97, "{rank}");
    assert!(median < 0.04 && most < 0.11 && worst < 0.25, "{median} {most} {worst}");
}

/// The constants are fitted to the rows above: what they are worth elsewhere is what they are worth on rows that the fit
/// has not seen. Every third row is held out, three times, and the fit begins at round numbers. Of CUDA cores there are no more
/// rows than constants.
#[test]
fn rows_that_the_fit_has_not_seen_are_met_too() {
    let rows: Vec<Row> = rows().into_iter().filter(|row| row.plan.spec().mma != Mma::Scalar).collect();
    let guess = Rates {
        wgmma: [1.0, 2.0, 2.0],
        round: 0.02,
        wait: [0.01, 0.01],
        block: 0.01,
        fill: 0.2,
        turn: 0.01,
        latency: [0.7, 1.3],
        between: 0.5,
        store: 1.0,
        row_ns: 1.5,
        across: 1.5,
        l2: 1.0,
        promoted: 1.05,
        mma_sync: 1300.0,
        wmma: [0.9, 0.5],
        shown: 0.4,
        copied: 2.0,
        one_set: 1.0,
        mma_sync8: [2.0, 0.5],
        ..Rates::H200
    };
    let (mut held_out, mut guessed) = (Vec::new(), Vec::new());
    for fold in 0..3 {
        let seen: Vec<&Row> = rows.iter().enumerate().filter(|(at, _)| at % 3 != fold).map(|(_, row)| row).collect();
        let rates = fitted(&seen, guess, &CONSTANTS, 0.0, 3);
        held_out.extend(rows.iter().skip(fold).step_by(3).map(|row| row.log(&rates)));
        guessed.extend(rows.iter().skip(fold).step_by(3).map(|row| row.log(&guess)));
    }
    let [median, most, worst] = quantiles(&held_out);
    eprintln!("{} rows held out: error median {median:.3}, 0.9 {most:.3}, worst {worst:.3}", held_out.len());
    eprintln!("of the round numbers alone: {:.3?}", quantiles(&guessed));
    assert!(median < 0.06 && most < 0.15 && worst < 0.35, "{median} {most} {worst}");
}

/// Of two kernels of one problem whose times differ by more than 3 %, the faster one is predicted to be faster, nine times
/// of ten.
#[test]
fn kernels_of_one_problem_are_told_apart() {
    let rows = rows();
    let (mut right, mut wrong) = (0, Vec::new());
    for (at, x) in rows.iter().enumerate() {
        for y in &rows[at + 1..] {
            let (one, other) = (&x.problem.workload, &y.problem.workload);
            let is_same = (&one.source, one.facts, one.m, one.n, one.k)
                == (&other.source, other.facts, other.m, other.n, other.k);
            if is_same && (x.us / y.us).ln().abs() > 0.03 {
                let us = |row: &Row| predict(&row.plan, &row.problem, &Card::h200()).us;
                match (x.us < y.us) == (us(x) < us(y)) {
                    true => right += 1,
                    false => wrong.push(format!("{} {:.0}, {} {:.0}", x.plan.spec(), x.us, y.plan.spec(), y.us)),
                }
            }
        }
    }
    eprintln!("{right} pairs right, wrong: {wrong:#?}");
    assert!(right >= 9 * wrong.len() && right > 30, "{right} right, wrong: {wrong:#?}");
}

#[test]
fn older_kernels_are_slower_in_the_order_of_their_years() {
    let us = |spec: &str| {
        let spec: KernelSpec = format!("bm = 512, bk = 112, {spec}").parse().unwrap();
        let problem = problem(&spec, FLAGSHIP, "topk:16");
        predict(&Plan::new(&spec).unwrap(), &problem, &Card::h200()).us
    };
    let ladder = [
        us("bn = 64, mma = scalar, accumulate = atomic, out = f32"),
        us("bn = 64, mma = scalar"),
        us("bn = 128, mma = scalar, vector = 8"),
        us("bn = 64, mma = wmma, arch = sm_70, warps = (2, 2)"),
        us("bn = 64, mma = wmma, warps = (4, 2)"),
        us("bn = 256, mma = wmma"),
        us("bn = 256, mma = mma_sync"),
        us("bn = 128, stages = 3"),
        us("bn = 256"),
    ];
    assert!(ladder.is_sorted_by(|x, y| x > y), "{ladder:?}");
}

#[test]
fn more_work_takes_longer_and_a_larger_card_is_faster() {
    let spec: KernelSpec = "bm = 128, bn = 256, bk = 64".parse().unwrap();
    let plan = Plan::new(&spec).unwrap();
    let us = |density: f64, card: &Card| predict(&plan, &problem(&spec, SMALL, &format!("random:{density}")), card).us;
    let times: Vec<f64> = [0.02, 0.1, 0.3, 0.9].map(|density| us(density, &Card::h200())).to_vec();
    assert!(times.is_sorted_by(|x, y| x < y), "{times:?}");
    let (half, known) = for_gpu("NVIDIA H900", Some((66, 1490.0)));
    assert_eq!((half.sms, known), (66, Known::Scaled));
    let ratio = us(0.9, &half) / us(0.9, &Card::h200());
    // Of half as many CTAs fewer ask for the same bytes at the same time.
    assert!((1.8..2.15).contains(&ratio), "{ratio}");
    assert_eq!(for_gpu("NVIDIA H200", None), (Card::h200(), Known::Measured));
    let (assumed, known) = for_gpu("NVIDIA A900", None);
    assert_eq!((known, assumed.sms), (Known::Assumed, 132));
    assert!(assumed.name.contains("another GPU"));
}

#[test]
fn nothing_takes_a_launch_and_writing_c() {
    for text in ["bm = 64, bn = 256, bk = 64", "bm = 16, bn = 256, bk = 16", "bm = 64, bn = 64, bk = 64, mma = scalar"]
    {
        let spec: KernelSpec = text.parse().unwrap();
        let empty = problem(&spec, SMALL, "random:0.0");
        assert_eq!(empty.features.nnzb, 0);
        let predicted = predict(&Plan::new(&spec).unwrap(), &empty, &Card::h200());
        // 33.5 MB, and the ends of tiles.
        let hbm = 4.3 * Rates::H200.hbm;
        assert!(predicted.us > Card::h200().launch_us + 33.5 / hbm && predicted.us < 60.0, "{text}: {predicted:?}");
        assert_eq!(predicted.term(What::Launch), Card::h200().launch_us);
    }
}

/// 100,352 tiles of rows of different lengths.
fn many_tiles() -> (Plan, TuningProblem) {
    let spec: KernelSpec = "bm = 64, bn = 64, bk = 64".parse().unwrap();
    let problem = problem(&spec, [50_176, 8192, 8192], "random:0.02");
    (Plan::new(&spec).unwrap(), problem)
}

#[test]
fn a_hundred_thousand_tiles_are_predicted() {
    let (plan, problem) = many_tiles();
    assert!(predict(&plan, &problem, &Card::h200()).us > 100.0);
}

/// `cargo test --release -p bsr-tuner --lib a_prediction_takes -- --ignored --nocapture`.
#[test]
#[ignore = "a bound for a machine that does nothing else, with optimisation"]
fn a_prediction_takes_less_than_five_milliseconds() {
    let (plan, problem) = many_tiles();
    let timed = |_| {
        let begun = std::time::Instant::now();
        assert!(predict(&plan, &problem, &Card::h200()).us > 100.0);
        begun.elapsed().as_secs_f64()
    };
    // The first one draws the pattern.
    predict(&plan, &problem, &Card::h200());
    let seconds = (0..5).map(timed).fold(f64::INFINITY, f64::min);
    eprintln!("{:.2} ms", 1e3 * seconds);
    assert!(seconds < 0.005, "{seconds}");
}

/// Nothing precedes a launch that is predicted, so that there is nothing to overlap with.
#[test]
fn a_lone_launch_gains_nothing_from_a_dependent_one() {
    let us = |text: &str| {
        let spec: KernelSpec = text.parse().unwrap();
        predict(&Plan::new(&spec).unwrap(), &problem(&spec, [4096, 16, 4096], "random:0.25"), &Card::h200()).us
    };
    let alone = us("bm = 64, bn = 16, bk = 64");
    for text in ["bm = 64, bn = 16, bk = 64, pdl = on", "bm = 64, bn = 16, bk = 64, pdl = early"] {
        assert!((us(text) / alone - 1.0).abs() < 0.01, "{text}");
    }
}

/// What was measured of divided K and of packed rows (`benches/LOG.md`, 29 and 35): which is faster.
#[test]
fn divided_k_and_packed_rows_gain_where_they_did() {
    let ratio = |text: [&str; 2], size: [usize; 3], pattern: &str| {
        let us = text.map(|text| {
            let spec: KernelSpec = text.parse().unwrap();
            predict(&Plan::new(&spec).unwrap(), &problem(&spec, size, pattern), &Card::h200()).us
        });
        us[0] / us[1]
    };
    let few = [4096, 16, 14336];
    let whole = "bm = 128, bn = 16, bk = 128";
    assert!(ratio([&format!("{whole}, split = 3"), whole], few, "random:0.25") < 0.95);
    assert!(ratio([&format!("{whole}, split = 8"), &format!("{whole}, split = 3")], few, "random:0.25") > 1.05);
    // `benches/model`: 285 us against 334.
    let packed = "bm = 64, bn = 128, bk = 64, swap = off, pack = 3, split = auto";
    let wide = "bm = 64, bn = 256, bk = 64, cluster = 1, swap = off";
    assert!(ratio([packed, wide], [12288, 6144, 12288], "powerlaw:0.06") < 1.0);
}

/// The groups of threads that were fastest with 27 blocks a row (`benches/LOG.md`, 69 and 85) are predicted to be.
#[test]
fn small_blocks_have_the_groups_of_threads_that_were_fastest() {
    for (side, dtype, fastest) in
        [(2, "f64", 16), (3, "f64", 16), (3, "f32", 16), (4, "f64", 32), (5, "f32", 32), (6, "f64", 32), (7, "f64", 32)]
    {
        let us = |lanes: u32| {
            let spec: KernelSpec = format!(
                "bm = {side}, bn = 1, bk = {side}, mma = scalar, dtype = {dtype}, b_layout = col, c_layout = col, lanes = {lanes}"
            )
            .parse()
            .unwrap();
            predict(&Plan::new(&spec).unwrap(), &problem(&spec, [30_000, 1, 30_000], "topk:27"), &Card::h200()).us
        };
        for lanes in [8, 16, 32].into_iter().filter(|lanes| *lanes != fastest) {
            assert!(us(fastest) < us(lanes), "{side} x {side} of {dtype}: {lanes} before {fastest}");
        }
    }
}

/// Where a CTA that reads its rows together was faster than every group of threads (`benches/LOG.md`, 103), it is predicted to be.
#[test]
fn small_blocks_are_read_together_where_that_was_faster() {
    for (side, dtype, is_faster) in [
        (1, "f64", true),
        (2, "f64", true),
        (3, "f64", false),
        (4, "f64", false),
        (5, "f64", false),
        (6, "f64", false),
        (1, "f32", true),
        (2, "f32", true),
        (3, "f32", true),
        (4, "f32", true),
        (5, "f32", false),
        (6, "f32", false),
    ] {
        let us = |lanes: u32| {
            let layouts = "b_layout = col, c_layout = col";
            let text =
                format!("bm = {side}, bn = 1, bk = {side}, mma = scalar, dtype = {dtype}, {layouts}, lanes = {lanes}");
            let spec: KernelSpec = text.parse().unwrap();
            predict(&Plan::new(&spec).unwrap(), &problem(&spec, [30_000, 1, 30_000], "topk:27"), &Card::h200()).us
        };
        let groups = [8, 16, 32].map(us).into_iter().fold(f64::INFINITY, f64::min);
        assert_eq!(us(1) < groups, is_faster, "{side} x {side} of {dtype}: {} and {groups}", us(1));
    }
}

/// Kernels of few columns, as they were measured (`benches/LOG.md`, 42 and 46): few CTAs that each stream at the most that an SM
/// takes, sums of parts, a stage of two blocks, and tiles that are mostly beyond the last column.
#[test]
fn kernels_of_few_columns_take_as_long_as_they_do() {
    let (wide, small) = ([4096, 16, 14336], [11008, 16, 4096]);
    for (text, size, measured) in [
        ("bm = 128, bn = 16, bk = 128", [28672, 16, 8192], 34.1),
        ("bm = 128, bn = 16, bk = 128", wide, 17.1),
        ("bm = 128, bn = 16, bk = 128, split = 2", wide, 14.8),
        ("bm = 128, bn = 16, bk = 128, split = 4", wide, 15.6),
        ("bm = 64, bn = 16, bk = 64", small, 11.4),
        ("bm = 64, bn = 16, bk = 64, k_step = 128", small, 11.2),
        ("bm = 64, bn = 16, bk = 64, split = 2", small, 15.2),
        ("bm = 64, bn = 256, bk = 64", small, 24.4),
        ("bm = 64, bn = 512, bk = 64", small, 40.9),
    ] {
        let spec: KernelSpec = text.parse().unwrap();
        let problem = problem(&spec, size, "random:0.25");
        let us = predict(&Plan::new(&spec).unwrap(), &problem, &Card::h200()).us;
        assert!((us / measured).ln().abs() < 0.17, "{text}: {us:.1} us, not {measured}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the problem, every kernel of a space has a time that can be sorted, and no less than a launch and what must
    /// move.
    #[test]
    fn every_kernel_of_a_space_has_a_sensible_time(
        rows in prop::sample::select(vec![8_usize, 16, 24, 64, 96, 128, 256]),
        depth in prop::sample::select(vec![16_usize, 32, 64, 112]),
        (m, n, k) in (1_usize..5000, 1_usize..5000, 1_usize..3000),
        density in 0.0_f64..1.0,
        op in prop::sample::select(vec!["dsd", "dds", "sdd"]),
    ) {
        let facts: Facts = format!("bm = {rows}, bk = {depth}, op = {op}").parse().unwrap();
        for point in Space::named("quick").unwrap().points(&facts).unwrap().legal {
            let problem = problem(&point.spec, [m, n, k], &format!("random:{density}"));
            let predicted = predict(&point.plan, &problem, &Card::h200());
            let least = Card::h200().launch_us + predicted.term(What::Hbm);
            prop_assert!(predicted.us.is_finite() && predicted.us >= least, "{}: {predicted:?}", point.spec);
            prop_assert!(predicted.terms.iter().all(|term| term.us.is_finite()), "{}: {predicted:?}", point.spec);
        }
    }
}
