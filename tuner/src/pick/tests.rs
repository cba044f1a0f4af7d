#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use bsr_codegen::Dtype;
use bsr_runtime::Pattern;

use super::*;
use crate::{DeviceId, DeviceKind, Source, Workload};

pub(super) fn gpu() -> Gpu {
    Gpu { name: "NVIDIA H200".into(), driver: "580 (CUDA 13.0)".into(), capability: (9, 0) }
}

fn problem(facts: &str, (m, n, k): (usize, usize, usize), pattern: &str, seed: u64) -> TuningProblem {
    let facts: Facts = facts.parse().unwrap();
    let structure = pattern.parse::<Pattern>().unwrap().structure(m, k, facts.block(), seed).unwrap();
    TuningProblem::new(Workload { facts, m, n, k, source: Source::Pattern(pattern.into()), seed }, &structure)
}

pub(super) fn square() -> TuningProblem {
    problem("bm = 64, bk = 64", (2048, 2048, 2048), "random:0.25", 0)
}

fn tuned(problem: &TuningProblem, spec: &str, us: f64) -> Tuned {
    let device = DeviceId { kind: DeviceKind::Gpu, name: gpu().name, driver: gpu().driver };
    let (ptx, version) = (String::new(), "0.1.0".to_owned());
    Tuned {
        problem: problem.clone(),
        spec: spec.parse().unwrap(),
        ptx,
        device,
        version,
        us,
        ratio: Some(0.9),
        others: vec![],
    }
}

/// A tuner that knows these alone.
fn tuner(known: impl IntoIterator<Item = Tuned>) -> Tuner {
    let mut table = Table::default();
    known.into_iter().for_each(|tuned| table.add(tuned));
    Tuner { table, ..Tuner::new(gpu()) }
}

fn spec(text: &str) -> KernelSpec {
    text.parse().unwrap()
}

#[test]
fn what_was_tuned_for_the_problem_comes_first_and_the_faster_of_two() {
    let problem = square();
    let slow = tuned(&problem, "bm = 64, bn = 64, bk = 64", 9.0);
    let fast = tuned(&problem, "bm = 64, bn = 128, bk = 64", 8.0);
    let choice = tuner([slow, fast.clone()]).pick(&problem, None).unwrap();
    assert_eq!((choice.spec, choice.why), (fast.spec, Why::Exact(Box::new(fast))));
}

#[test]
fn another_gpu_is_no_hit_and_another_driver_is_the_second_choice() {
    let problem = square();
    let mut other = tuned(&problem, "bm = 64, bn = 64, bk = 64", 1.0);
    other.device.name = "NVIDIA H100".into();
    let choice = tuner([other.clone()]).pick(&problem, None).unwrap();
    assert!(matches!(choice.why, Why::Predicted { .. }), "{choice}");

    let mut old = tuned(&problem, "bm = 64, bn = 64, bk = 64", 1.0);
    old.device.driver = "570".into();
    let same = tuned(&problem, "bm = 64, bn = 128, bk = 64", 2.0);
    assert_eq!(tuner([old.clone(), same.clone()]).pick(&problem, None).unwrap().spec, same.spec);
    assert_eq!(tuner([old.clone()]).pick(&problem, None).unwrap().spec, old.spec);
}

#[test]
fn near_is_the_same_facts_class_and_bucket_and_the_nearest_of_them() {
    let known = square();
    let like = problem("bm = 64, bk = 64", (2176, 1920, 2048), "random:0.25", 3);
    let farther = problem("bm = 64, bk = 64", (2560, 1600, 2048), "random:0.25", 1);
    let tuner =
        tuner([tuned(&farther, "bm = 64, bn = 64, bk = 64", 1.0), tuned(&known, "bm = 64, bn = 128, bk = 64", 8.0)]);
    let choice = tuner.pick(&like, None).unwrap();
    let Why::Near { tuned, distance, .. } = &choice.why else { panic!("{choice}") };
    assert_eq!((tuned.us, choice.spec), (8.0, spec("bm = 64, bn = 128, bk = 64")));
    assert!(*distance > 0.0 && *distance < 1.0, "{distance}");
    for other in [
        problem("bm = 64, bk = 64, out = f32", (2048, 2048, 2048), "random:0.25", 0),
        problem("bm = 64, bk = 64", (2048, 128, 2048), "random:0.25", 0),
        problem("bm = 64, bk = 64", (2048, 2048, 2048), "random:0.03", 0),
        problem("bm = 64, bk = 64", (2048, 2048, 2048), "powerlaw:0.25", 0),
    ] {
        let choice = tuner.pick(&other, None).unwrap();
        assert!(matches!(choice.why, Why::Predicted { .. }), "{}: {choice}", other.key());
    }
}

#[test]
fn what_was_tuned_with_the_other_16_bit_type_counts() {
    let other = Other { spec: spec("bm = 64, bn = 64, bk = 64"), times: 1.1 };
    let tuner = tuner([Tuned { others: vec![other], ..tuned(&square(), "bm = 64, bn = 128, bk = 64", 8.0) }]);
    let same = problem("bm = 64, bk = 64, dtype = bf16", (2048, 2048, 2048), "random:0.25", 0);
    let choice = tuner.pick(&same, None).unwrap();
    assert_eq!(choice.spec, spec("bm = 64, bn = 128, bk = 64, dtype = bf16"));
    let Why::Exact(found) = &choice.why else { panic!("{choice}") };
    assert!(found.kernels().all(|(spec, _)| spec.a == Dtype::BF16), "{found:?}");
    assert!(choice.to_string().contains("tuned with f16, whose elements are as large"), "{choice}");
    let like = problem("bm = 64, bk = 64, dtype = bf16", (2176, 1920, 2048), "random:0.25", 3);
    let choice = tuner.pick(&like, None).unwrap();
    assert!(matches!(choice.why, Why::Near { .. }) && choice.spec.a == Dtype::BF16, "{choice}");
    let mixed = problem("bm = 64, bk = 64, dtype = e4m3", (2048, 2048, 2048), "random:0.25", 0);
    assert!(mixed.twin().is_none() && matches!(tuner.pick(&mixed, None).unwrap().why, Why::Predicted { .. }));
}

/// 4096 columns are eight tiles of 512, 3584 are seven: a cluster of two is half empty there.
#[test]
fn a_near_problem_may_want_another_of_its_kernels() {
    let known = problem("bm = 64, bk = 64", (4096, 4096, 4096), "random:0.125", 0);
    let like = problem("bm = 64, bk = 64", (4096, 3584, 4608), "random:0.12", 7);
    let other = Other { spec: spec("bm = 64, bn = 512, bk = 64"), times: 1.02 };
    let pair = Tuned { others: vec![other], ..tuned(&known, "bm = 64, bn = 512, bk = 64, cluster = 2", 44.0) };
    let tuner = tuner([pair]);
    assert_eq!(tuner.pick(&known, None).unwrap().spec.cluster, Some(2));
    let choice = tuner.pick(&like, None).unwrap();
    let Why::Near { us, .. } = choice.why else { panic!("{choice}") };
    assert_eq!(choice.spec, spec("bm = 64, bn = 512, bk = 64"));
    assert!(us > 30.0 && us < 50.0 && choice.to_string().contains("of its 2 kernels"), "{choice}");
}

#[test]
fn the_key_never_confuses_problems() {
    let base = square();
    let keys: std::collections::HashSet<String> = [
        base.clone(),
        problem("bm = 64, bk = 64", (2048, 2048, 1984), "random:0.25", 0),
        problem("bm = 64, bk = 32", (2048, 2048, 2048), "random:0.25", 0),
        problem("bm = 64, bk = 64, out = f32", (2048, 2048, 2048), "random:0.25", 0),
        problem("bm = 64, bk = 64, b_layout = col", (2048, 2048, 2048), "random:0.25", 0),
        problem("bm = 64, bk = 64, transpose = on", (2048, 2048, 2048), "random:0.25", 0),
        problem("bm = 64, bk = 64, epilogue = \"|| relu(acc)\"", (2048, 2048, 2048), "random:0.25", 0),
        problem("bm = 64, bk = 64", (2048, 2048, 2048), "random:0.5", 0),
    ]
    .iter()
    .map(TuningProblem::key)
    .collect();
    assert_eq!(keys.len(), 8);
    // Another seed is the same problem; choices are no facts.
    assert_eq!(
        base.key(),
        problem("bm = 64, bk = 64, stages = 3, cluster = 2", (2048, 2048, 2048), "random:0.25", 9).key()
    );
    assert_ne!(
        Facts::of(&spec("bm = 64, bn = 64, bk = 64, dtype = e4m3, accumulate = promoted")),
        Facts::of(&spec("bm = 64, bn = 64, bk = 64, dtype = e4m3"))
    );
}

#[test]
fn a_prediction_ranks_all_that_can_be_planned() {
    let choice = tuner([]).pick(&square(), None).unwrap();
    let Why::Predicted { ranked } = &choice.why else { panic!("{choice}") };
    assert!(ranked.len() > 20 && ranked.is_sorted_by(|x, y| x.predicted_us <= y.predicted_us));
    assert_eq!(choice.spec, ranked[0].spec);
    assert!(choice.to_string().contains("ranks it first of"), "{choice}");
}

#[test]
fn a_program_overrides_and_offers_by_priority() {
    let problem = square();
    let known = tuned(&problem, "bm = 64, bn = 128, bk = 64", 8.0);
    let forced = spec("bm = 64, bn = 32, bk = 64");
    let choice = tuner([known.clone()]).overridden(forced).pick(&problem, None).unwrap();
    assert_eq!((choice.spec, choice.why), (forced, Why::Overridden));

    let (low, high) = (spec("bm = 64, bn = 256, bk = 64"), spec("bm = 64, bn = 16, bk = 64"));
    // What is offered counts alone, and of it the highest priority that can be planned.
    let broken = spec("bm = 64, bn = 256, bk = 64, stages = 60");
    let offered = tuner([known]).variant(low, 0).variant(high, 5).variant(broken, 9);
    assert_eq!(offered.pick(&problem, None).unwrap().spec, high);
    let none = tuner([]).variant(broken, 1).pick(&problem, None).unwrap_err();
    assert!(matches!(none, PickError::NoKernel(_)) && none.to_string().contains("no variant for"), "{none}");
    // Another block has no variants.
    let other = super::tests::problem("bm = 128, bk = 64", (2048, 2048, 2048), "random:0.25", 0);
    assert_eq!(offered.pick(&other, None).unwrap().spec.bm, 128);
}

#[test]
fn the_first_use_measures_once_whatever_the_threads() {
    let calls = AtomicUsize::new(0);
    let tuner = tuner([]).first_use(FirstUse::Measure);
    let problem = square();
    let known = (problem.workload.facts, (2048, 2048, 2048), [7; 16]);
    let chosen: Vec<Arc<Choice>> = std::thread::scope(|scope| {
        let choose = || {
            let mut measure = |specs: &[KernelSpec]| -> Vec<Result<f64, String>> {
                calls.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(30));
                // The third is the fastest; the first fails.
                (0..specs.len())
                    .map(|at| if at == 0 { Err("wrong".into()) } else { Ok((at as f64 - 2.0).abs() + 5.0) })
                    .collect()
            };
            tuner.choose(known, || problem.clone(), Some(&mut measure)).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(choose)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert!(chosen.iter().all(|choice| choice.why == Why::Measured { us: 5.0, of: MEASURED }));
    // Failures are not remembered.
    let mut broken = |specs: &[KernelSpec]| specs.iter().map(|_| Err("no".to_owned())).collect();
    let other = (problem.workload.facts, (2048, 2048, 2048), [8; 16]);
    assert!(tuner.choose(other, || problem.clone(), Some(&mut broken)).is_err());
    let mut fine = |specs: &[KernelSpec]| specs.iter().map(|_| Ok(1.0)).collect();
    assert!(tuner.choose(other, || problem.clone(), Some(&mut fine)).is_ok());
}

#[test]
fn the_shipped_table_is_read_and_every_kernel_in_it_can_be_planned() {
    let table = Table::from_lines(table::SHIPPED).unwrap();
    for tuned in table.tuned() {
        assert!(Plan::new(&tuned.spec).is_ok(), "{tuned}");
        assert_eq!(Facts::of(&tuned.spec), tuned.problem.workload.facts, "{tuned}");
    }
    assert_eq!(Table::from_lines(&table.to_lines().unwrap()).unwrap().tuned(), table.tuned());
}

/// Two sparse factors of a program: their patterns are followed, and what was measured of them is found again by both classes.
#[test]
fn kernels_of_two_sparse_factors_are_chosen_by_both_patterns() {
    let facts: Facts = "op = dss, bm = 64, bn = 64, bk = 64".parse().unwrap();
    let drawn =
        |words: &str, seed: u64| words.parse::<Pattern>().unwrap().structure(4096, 4096, (64, 64), seed).unwrap();
    let of = |a: &str, b: &str| TuningProblem::of_pairs(&facts, &drawn(a, 1), &drawn(b, 2), None).unwrap();
    let even = of("random:0.25", "random:0.25");
    let [dense, sparse] = ["random:0.9", "random:0.02"].map(|b| of("random:0.25", b));
    let pairs = |problem: &TuningProblem| problem.second().unwrap().pairs;
    assert_eq!(even.executed_flops(), 2 * pairs(&even) * 64 * 64 * 64);
    assert!(pairs(&dense) > 3 * pairs(&even) && pairs(&even) > 10 * pairs(&sparse));
    let few =
        ["", ", pack = 2", ", stages = 5"].map(|more| spec(&format!("op = dss, bm = 64, bn = 64, bk = 64{more}")));
    let us = |problem: &TuningProblem| tuner([]).pick_of(problem, &few).unwrap().us().unwrap();
    assert!(us(&dense) > us(&even) && us(&even) > us(&sparse));

    let known = tuner([tuned(&even, "op = dss, bm = 64, bn = 64, bk = 64, stages = 5", 9.0)]);
    let text = serde_json::to_string(&even).unwrap();
    let again: TuningProblem = serde_json::from_str(&text).unwrap();
    assert_eq!((again.key(), again.executed_flops()), (even.key(), even.executed_flops()));
    assert!(matches!(known.pick(&again, None).unwrap().why, Why::Exact(_)));
    assert!(matches!(known.pick_of(&dense, &few).unwrap().why, Why::Predicted { .. }));
    // Patterns that are not at hand have others with their features in their place.
    let [here, there] = [&even, &again].map(us);
    assert!((0.9..1.1).contains(&(there / here)), "{there} and {here} us");
    // A workload that is drawn has such patterns, too.
    let swept = problem("op = dss, bm = 64, bn = 64, bk = 64", (4096, 4096, 4096), "random:0.25", 0);
    assert_eq!(swept.key(), even.key());
    assert!(matches!(known.pick(&swept, None).unwrap().why, Why::Exact(_)));

    for (altered, why) in [
        (
            text.replace("dss", "sss")
                .replace("\"block_rows\":64,\"block_cols\":64", "\"block_rows\":64,\"block_cols\":63"),
            "blocks",
        ),
        (text.replace("\"written\":4096", "\"written\":4097"), "4097 of 4096 blocks of C"),
        (text.replace("bn = 64, bk = 64, op = dss", "bk = 64"), "no second sparse factor"),
    ] {
        let refused = serde_json::from_str::<TuningProblem>(&altered).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
