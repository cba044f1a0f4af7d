#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bsr_codegen::KernelSpec;

use super::*;
use crate::backend::{Backend, Candidate, Checked, CrashMode, Fake, Rounds, Timings};
use crate::search::Strategy;
use crate::{Facts, Source, Verdict};

const FACTS: &str = "bm = 64, bk = 32";

fn workload() -> Workload {
    let facts: Facts = FACTS.parse().unwrap();
    Workload { facts, m: 256, n: 256, k: 256, source: Source::Pattern("random:0.5".into()), seed: 1 }
}

/// Points that can all be planned: `bn` from 16 to 256 in steps of 16, and after these again with a number of stages.
fn points(count: u32) -> Vec<SweepPoint> {
    let stages = |at: u32| if at < 16 { "auto".to_owned() } else { format!("{}", 1 + at / 16) };
    let spec = |at: u32| {
        format!("{FACTS}, mma = mma_sync, bn = {}, stages = {}", 16 * (at % 16 + 1), stages(at)).parse().unwrap()
    };
    (0..count).map(|at| SweepPoint { spec: spec(at), predicted_us: Some(f64::from(at)) }).collect()
}

fn name(bn: u32) -> String {
    format!("bm = 64, bn = {bn}, bk = 32, mma = mma_sync")
}

fn job(points: Vec<SweepPoint>) -> Job {
    Job { workload: workload(), order: Box::new(InOrder::new(points.len())), points }
}

fn fake(script: &str) -> Box<dyn Backend + Send> {
    Box::new(Fake::new(script.parse().unwrap(), 5, CrashMode::Reported))
}

struct Desk {
    folder: tempfile::TempDir,
    options: Options,
    stop: AtomicBool,
}

impl Desk {
    fn new() -> Self {
        let options = Options { compilers: 2, ..Options::default() };
        Self { folder: tempfile::tempdir().unwrap(), options, stop: AtomicBool::new(false) }
    }

    fn store(&self, name: &str) -> Store {
        Store::open(self.folder.path().join(name)).unwrap()
    }

    fn sweep(&self, backends: Vec<Box<dyn Backend + Send>>, job: Job) -> Outcome {
        self.try_sweep("db", backends, job, &|_| {}).unwrap()
    }

    fn try_sweep(
        &self,
        db: &str,
        mut backends: Vec<Box<dyn Backend + Send>>,
        job: Job,
        events: &(dyn Fn(&Event<'_>) + Sync),
    ) -> Result<Outcome, SweepError> {
        let options = self.options.clone();
        let sweep = Sweep { compiler: &PlainCompiler, options, run: None, stop: &self.stop, events };
        let mut outcomes = sweep.run(vec![job], &mut backends, &mut self.store(db))?;
        Ok(outcomes.pop().unwrap())
    }

    fn verdict(&self, subject: &str) -> Option<(Verdict, Option<String>)> {
        let records = self.store("db").records().unwrap();
        let mut found = records.into_iter().filter(|record| record.subject == subject);
        let only = found.next().map(|record| (record.verdict, record.error));
        assert!(found.next().is_none(), "{subject} twice");
        only
    }
}

#[test]
fn every_point_is_recorded_once_with_the_dense_library_beside_it() {
    let desk = Desk::new();
    let outcome = desk.sweep(vec![fake("bn = 128 -> 50 us; dense -> 40 us")], job(points(12)));
    assert_eq!((outcome.ended, outcome.known, outcome.rejected.len()), (Ended::Complete, 0, 0));
    let best = outcome.best().unwrap();
    assert_eq!((best.subject.clone(), best.verdict), (name(128), Verdict::Timed));
    assert!((outcome.ratio().unwrap() - 0.8).abs() < 0.01, "{:?}", outcome.ratio());
    assert!(best.relative_error.is_some() && best.predicted_us == Some(7.0) && !best.ptx.is_empty());
    let store = desk.store("db");
    assert_eq!(store.len().unwrap(), 12 + 2);
    assert_eq!(store.hit(&best.problem.key(), &best.device).unwrap().as_ref(), Some(best));
    let dense = outcome.baselines.iter().find(|record| record.subject == Fake::DENSE).unwrap();
    assert_eq!((dense.verdict, dense.dense.as_ref().unwrap().ratio), (Verdict::Timed, 1.0));
    let refused = outcome.baselines.iter().find(|record| record.subject == Fake::REFUSED).unwrap();
    assert_eq!((refused.verdict, refused.error.as_deref()), (Verdict::Refused, Some("refused: as scripted")));
}

#[test]
fn power_and_clock_of_the_rounds_are_recorded_where_they_are_told() {
    let desk = Desk::new();
    let outcome = desk.sweep(vec![fake("* -> clock 1500; dense -> 40 us")], job(points(4)));
    let records = desk.store("db").records().unwrap();
    let timed: Vec<_> = records.iter().filter(|record| record.verdict == Verdict::Timed).collect();
    assert_eq!(timed.len(), 4 + 1);
    for record in timed {
        assert_eq!(record.power.as_ref().unwrap().sm_mhz.unwrap().median, 1500, "{}", record.subject);
        let us = record.timing.as_ref().unwrap().median_us;
        assert!((record.kilocycles().unwrap() - 1.5 * us).abs() < 1e-9);
    }
    assert!(records.iter().filter(|record| record.verdict == Verdict::Refused).all(|record| record.power.is_none()));
    assert!(outcome.best().unwrap().power.is_some());
    let without = Desk::new().sweep(vec![fake("")], job(points(2)));
    assert!(without.ranking.iter().all(|record| record.power.is_none()));
}

#[test]
fn injected_failures_are_recorded_and_the_sweep_completes() {
    let script = "bn = 16 -> hang; bn = 32 -> fault; bn = 48 -> wrong; bn = 64 -> refuse; bn = 80 -> hang late; \
                  bn = 96 -> fault late; bn = 112 -> fault late; bn = 112 -> unattributed";
    for backends in [1, 2] {
        let desk = Desk::new();
        let outcome = desk.sweep((0..backends).map(|_| fake(script)).collect(), job(points(16)));
        let wanted = [
            Verdict::Hang,
            Verdict::Fault,
            Verdict::Wrong,
            Verdict::Refused,
            Verdict::Hang,
            Verdict::Fault,
            Verdict::Fault,
        ];
        for (bn, verdict) in (16..).step_by(16).zip(wanted) {
            let (found, error) = desk.verdict(&name(bn)).unwrap();
            assert!(found == verdict && error.is_some(), "bn = {bn}: {found:?}");
        }
        assert_eq!(outcome.ended, Ended::Complete);
        assert_eq!(outcome.verdicts.values().sum::<usize>(), 16);
        assert_eq!(outcome.ranking.len() + outcome.verdicts.get(&Verdict::Slow).unwrap_or(&0), 9);
    }
}

#[test]
fn a_failing_dense_library_is_left_out() {
    for script in ["dense -> fault", "dense -> hang late"] {
        let desk = Desk::new();
        let outcome = desk.sweep(vec![fake(script)], job(points(5)));
        assert_eq!(outcome.verdicts.values().sum::<usize>(), 5);
        assert!(outcome.ranking.iter().all(|record| record.dense.is_none()));
        assert!(desk.verdict(Fake::DENSE).unwrap().0 != Verdict::Timed);
    }
}

#[test]
fn the_slow_are_ended_early_and_the_noisy_are_timed_longer() {
    let mut desk = Desk::new();
    // In their order: a slow one that comes first is the best so far.
    desk.options.compilers = 1;
    let script = "* -> 100 us; bn = 16 -> 90 us; bn = 32 -> x 5; bn = 48 -> noise 0.2";
    desk.sweep(vec![fake(script)], job(points(4)));
    let records = desk.store("db").records().unwrap();
    let samples = |bn: u32| {
        let record = records.iter().find(|record| record.subject == name(bn)).unwrap();
        (record.verdict, record.timing.as_ref().unwrap().samples_us.len())
    };
    assert_eq!(samples(32), (Verdict::Slow, desk.options.quick_trial.most));
    assert_eq!(samples(48), (Verdict::Timed, desk.options.rounds.most));
    let calm = Desk::new();
    calm.sweep(vec![fake("* -> 100 us")], job(points(4)));
    let first = calm.store("db").records().unwrap().into_iter().find(|record| record.subject == name(16)).unwrap();
    assert_eq!(first.timing.unwrap().samples_us.len(), calm.options.rounds.least);
}

#[test]
fn a_sweep_that_goes_on_at_another_speed_takes_nothing_for_slow() {
    let mut desk = Desk::new();
    desk.options.limit = Some(4);
    desk.sweep(vec![fake("* -> 100 us; dense -> 90 us")], job(points(9)));
    assert_eq!(desk.store("db").len().unwrap(), 2 + 4);
    // What was killed still uses the GPU, or the clock is another: everything takes three times as long.
    desk.options.limit = None;
    desk.sweep(vec![fake("* -> 300 us; dense -> 270 us")], job(points(9)));
    let records = desk.store("db").records().unwrap();
    let kernels: Vec<Verdict> = records.iter().filter(|record| !record.baseline).map(|record| record.verdict).collect();
    assert_eq!(kernels, [Verdict::Timed; 9]);
}

#[test]
fn ties_are_named_and_others_are_not() {
    let desk = Desk::new();
    let script = "* -> 120 us; bn = 16 -> 100 us; bn = 48 -> 100.01 us; * -> noise 0.01";
    let outcome = desk.sweep(vec![fake(script)], job(points(4)));
    let mut tied = outcome.ties.clone();
    tied.push(outcome.best().unwrap().subject.clone());
    tied.sort();
    assert_eq!(tied, [name(16), name(48)]);
}

#[test]
fn a_second_sweep_repeats_nothing() {
    let desk = Desk::new();
    let script = "bn = 16 -> hang; bn = 32 -> wrong; bn = 48 -> x 10";
    let first = desk.sweep(vec![fake(script)], job(points(9)));
    let before = desk.store("db").records().unwrap();
    // Whatever a backend is asked for now hangs.
    let again = desk.sweep(vec![fake("* -> fault")], job(points(9)));
    assert_eq!(desk.store("db").records().unwrap(), before);
    assert_eq!((again.known, again.new), (9, 0));
    assert_eq!((again.best(), &again.verdicts), (first.best(), &first.verdicts));
    // Another seed is another workload.
    let other = Job { workload: Workload { seed: 2, ..workload() }, ..job(points(9)) };
    assert_eq!(desk.sweep(vec![fake(script)], other).known, 0);
}

#[test]
fn limit_and_stop_end_early_and_the_next_sweep_goes_on() {
    let mut desk = Desk::new();
    desk.options.limit = Some(5);
    let outcome = desk.sweep(vec![fake("")], job(points(12)));
    assert_eq!((outcome.ended, outcome.verdicts.values().sum::<usize>()), (Ended::Limit, 5));
    let outcome = desk.sweep(vec![fake("")], job(points(12)));
    assert_eq!((outcome.known, outcome.new), (5, 0));

    desk.options = Options { limit: None, group: 2, ..desk.options };
    let stop = |event: &Event<'_>| {
        if let Event::Recorded(record) = event
            && record.subject != Fake::DENSE
        {
            desk.stop.store(true, Ordering::SeqCst);
        }
    };
    let outcome = desk.try_sweep("db", vec![fake("")], job(points(12)), &stop).unwrap();
    assert_eq!(outcome.ended, Ended::Stopped);
    assert!(outcome.new > 0 && desk.store("db").len().unwrap() < 14, "{}", outcome.new);
    desk.stop.store(false, Ordering::SeqCst);
    let outcome = desk.sweep(vec![fake("")], job(points(12)));
    assert_eq!((outcome.ended, outcome.known + outcome.new), (Ended::Complete, 12));
    assert_eq!(desk.store("db").len().unwrap(), 14);
}

#[test]
fn a_budget_is_kept() {
    let mut desk = Desk::new();
    desk.options = Options { budget: Some(Duration::from_millis(700)), group: 1, ..desk.options };
    // All of them would take 3.8 s at least.
    let outcome = desk.sweep(vec![fake("* -> pause 40")], job(points(96)));
    assert_eq!(outcome.ended, Ended::Budget);
    assert!(outcome.new < 96);
}

#[test]
fn shards_are_disjoint_and_their_merge_is_the_whole() {
    let mut desk = Desk::new();
    let sweep = |desk: &Desk, db: &str| desk.try_sweep(db, vec![fake("")], job(points(24)), &|_| {}).unwrap();
    let whole = sweep(&desk, "whole");
    let mut sizes = vec![];
    for (db, shard) in [("1", "1/2"), ("2", "2/2")] {
        desk.options.shard = Some(shard.parse().unwrap());
        sizes.push(sweep(&desk, db).verdicts.values().sum::<usize>());
    }
    assert!(sizes.iter().sum::<usize>() == 24 && sizes.iter().all(|size| *size > 4), "{sizes:?}");
    let mut all = desk.store("all");
    for db in ["1", "2"] {
        all.merge(desk.folder.path().join(db)).unwrap();
    }
    let subjects = |store: &Store| {
        let mut subjects: Vec<String> = store.records().unwrap().into_iter().map(|record| record.subject).collect();
        subjects.sort();
        subjects.dedup();
        subjects
    };
    assert_eq!(subjects(&all), subjects(&desk.store("whole")));
    let hit = all.hit(&whole.problem.key(), &whole.device).unwrap().unwrap();
    assert_eq!(hit.subject, whole.best().unwrap().subject);
    for wrong in ["0/2", "3/2", "1", "a/b", "1/0"] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
}

#[test]
fn points_that_are_no_kernels_are_counted_and_refused_kernels_recorded() {
    struct Picky;
    impl Compiler for Picky {
        fn compile(&self, spec: &KernelSpec) -> Result<Option<f64>, String> {
            if spec.bn == 32 { Err("too many registers".into()) } else { PlainCompiler.compile(spec) }
        }
    }
    let desk = Desk::new();
    let mut points = points(3);
    for stages in [90, 91] {
        let spec = format!("{FACTS}, bn = 128, stages = {stages}").parse().unwrap();
        points.push(SweepPoint { spec, predicted_us: None });
    }
    let events = Mutex::new(0);
    let count = |event: &Event<'_>| *lock(&events) += usize::from(matches!(event, Event::Rejected { .. }));
    let sweep = Sweep { compiler: &Picky, options: desk.options.clone(), run: None, stop: &desk.stop, events: &count };
    let outcome = sweep.run(vec![job(points)], &mut [fake("")], &mut desk.store("db")).unwrap().pop().unwrap();
    assert_eq!(outcome.rejected.into_iter().collect::<Vec<_>>(), [("cannot be planned: stages".to_owned(), 2)]);
    assert_eq!(*lock(&events), 2);
    assert_eq!(desk.verdict(&name(32)), Some((Verdict::Refused, Some("too many registers".into()))));
    assert_eq!(outcome.verdicts[&Verdict::Timed], 2);
}

#[test]
fn halving_times_the_best_few_again_together_and_once() {
    let mut desk = Desk::new();
    desk.options.halving = Some(3);
    desk.options.slow_factor = 10.0;
    let outcome = desk.sweep(vec![fake("")], job(points(10)));
    let samples: Vec<usize> = outcome.ranking.iter().map(|r| r.timing.as_ref().unwrap().samples_us.len()).collect();
    assert!(samples[..3].iter().all(|count| *count >= desk.options.final_rung.least), "{samples:?}");
    assert!(samples[3..].iter().all(|count| *count == desk.options.quick_trial.most), "{samples:?}");
    assert_eq!(desk.store("db").len().unwrap(), 2 + 10 + 3);
    let again = desk.sweep(vec![fake("* -> fault")], job(points(10)));
    assert_eq!((again.new, again.best()), (0, outcome.best()));
}

#[test]
fn the_better_half_is_timed_twice_as_long() {
    let mut desk = Desk::new();
    desk.options.halving = Some(8);
    desk.options.slow_factor = 10.0;
    let outcome = desk.sweep(vec![fake("* -> noise 0.001")], job(points(10)));
    let samples: Vec<usize> = outcome.ranking.iter().map(|r| r.timing.as_ref().unwrap().samples_us.len()).collect();
    let (least, quick) = (desk.options.final_rung.least, desk.options.quick_trial.most);
    assert!(samples[..2].iter().all(|count| *count >= 4 * least), "{samples:?}");
    assert_eq!(samples[2..], [2 * least, 2 * least, least, least, least, least, quick, quick]);
}

/// Names a point only after the one before has been measured, and the better half next.
struct Climbing(usize);

impl Order for Climbing {
    fn next(&mut self, measured: &[Measured]) -> Option<usize> {
        if measured.len() < self.0 || self.0 == 5 {
            return None;
        }
        assert!(measured.iter().all(|measured| measured.median_us.is_some()));
        self.0 += 1;
        Some(2 * (self.0 - 1))
    }
}

#[test]
fn an_order_may_wait_for_measurements() {
    let desk = Desk::new();
    let outcome = desk.sweep(vec![fake("")], Job { order: Box::new(Climbing(0)), ..job(points(12)) });
    assert_eq!((outcome.ended, outcome.verdicts.values().sum::<usize>()), (Ended::Complete, 5));
    assert!(outcome.ranking.iter().all(|record| record.predicted_us.unwrap() % 2.0 == 0.0));
}

#[test]
fn orders_name_every_point_once() {
    let all = |mut order: Box<dyn Order>| -> Vec<usize> { std::iter::from_fn(|| order.next(&[])).collect() };
    let candidates: Vec<(KernelSpec, f64)> =
        points(20).into_iter().map(|point| (point.spec, point.predicted_us.unwrap())).collect();
    let searched = |strategy: Strategy| all(Box::new(Searched::new(strategy.search(&candidates))));
    let shuffled = searched(Strategy::Random { seed: 1 });
    assert_ne!(shuffled, searched(Strategy::Random { seed: 2 }));
    assert_eq!(shuffled, searched(Strategy::Random { seed: 1 }));
    for mut order in [shuffled, searched(Strategy::Guided), all(Box::new(InOrder::new(20)))] {
        order.sort_unstable();
        assert_eq!(order, (0..20).collect::<Vec<_>>());
    }
}

/// A backend that is gone for good after some calls.
struct Dying(Fake, usize);

impl Backend for Dying {
    fn open(&mut self, workload: &Workload) -> Result<crate::backend::Opened, Trouble> {
        if self.1 == 0 { Err(Trouble::of_backend("the card fell off the bus")) } else { self.0.open(workload) }
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Checked, Trouble> {
        self.1 = self.1.saturating_sub(1);
        if self.1 == 0 { Err(Trouble::of_backend("the card fell off the bus")) } else { self.0.check(candidate) }
    }

    fn time(&mut self, candidates: &[Candidate], rounds: &Rounds) -> Result<Timings, Trouble> {
        self.0.time(candidates, rounds)
    }
}

#[test]
fn a_backend_that_dies_leaves_its_points_to_others_and_the_last_ends_the_sweep() {
    let dying = |calls| -> Box<dyn Backend + Send> {
        Box::new(Dying(Fake::new("* -> pause 2".parse().unwrap(), 5, CrashMode::Reported), calls))
    };
    let desk = Desk::new();
    let outcome = desk.try_sweep("two", vec![dying(7), fake("* -> pause 2")], job(points(20)), &|_| {}).unwrap();
    assert_eq!((outcome.ended, outcome.verdicts.values().sum::<usize>()), (Ended::Complete, 20));
    let error = desk.try_sweep("db", vec![dying(10)], job(points(20)), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("the card fell off the bus"), "{error}");
    let kept = desk.store("db").len().unwrap();
    assert!(kept > 4 && kept < 22, "{kept}");
    let outcome = desk.sweep(vec![fake("")], job(points(20)));
    assert_eq!((outcome.known + 2, outcome.verdicts.values().sum::<usize>()), (kept, 20));
}
