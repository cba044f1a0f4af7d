#![allow(clippy::unwrap_used)]

use std::path::Path;

use bsr_runtime::bench::{Clock, Power};
use proptest::prelude::*;

use super::*;
use crate::{Dense, DeviceKind, Facts, Features, Heads, Source, Timing, TuningProblem, Verdict};

pub(super) fn record(at: u32) -> Record {
    let facts: Facts = "bm = 64, bk = 32".parse().unwrap();
    let workload = Workload { facts, m: 128, n: 64, k: 96, source: Source::Pattern("topk:2".into()), seed: 7 };
    let features = Features {
        block_rows: 2,
        block_cols: 3,
        nnzb: 4,
        longest_row: 2,
        row_spread: 0.0,
        empty_rows: 0.0,
        reuse: 1.5,
    };
    Record {
        problem: TuningProblem { workload, features, second: None },
        subject: format!("bm = 64, bn = {at}, bk = 32"),
        baseline: false,
        plan: "plan".into(),
        ptx: format!("ptx{at}"),
        device: DeviceId { kind: DeviceKind::Fake, name: "fake".into(), driver: "1".into() },
        version: "0.1.0".into(),
        verdict: Verdict::Timed,
        error: None,
        predicted_us: Some(90.0),
        timing: Some(Timing::new(vec![100.0 + f64::from(at); 6])),
        dense: Some(Dense { median_us: 90.0, flops: 1 << 40, ratio: 0.9 }),
        relative_error: Some(1e-4),
        compile_ms: Some(12.5),
        watchdog_s: None,
        power: None,
        at: jiff::Timestamp::from_second(1_700_000_000 + i64::from(at)).unwrap(),
    }
}

pub(super) fn run() -> Run {
    Run {
        started: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        version: "0.1.0".into(),
        command: "bsr sweep".into(),
        space: "quick".into(),
        space_digest: "d".into(),
        asked: "all".into(),
    }
}

pub(super) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_record_is_kept_once_and_read_back() {
    let folder = folder();
    let path = folder.path().join("a.db");
    let mut store = Store::open(&path).unwrap();
    let records = [record(1), record(2)];
    assert_eq!(store.insert(&records, None).unwrap(), 2);
    assert_eq!(store.insert(&records, None).unwrap(), 0);
    drop(store);
    let store = Store::existing(&path).unwrap();
    assert_eq!(store.records().unwrap(), records);
    assert_eq!(store.meta("format").unwrap().as_deref(), Some("bsr-tuner"));
}

#[test]
fn the_fastest_timed_kernel_is_the_hit_and_devices_are_never_confused() {
    let folder = folder();
    let mut store = Store::open(folder.path().join("a.db")).unwrap();
    let key = record(1).problem.key();
    let slow = Record { verdict: Verdict::Slow, timing: Some(Timing::new(vec![1.0; 3])), ..record(9) };
    let library = Record { baseline: true, ptx: String::new(), timing: Some(Timing::new(vec![2.0; 6])), ..record(8) };
    let other = DeviceId { driver: "2".into(), ..record(1).device };
    let elsewhere = Record { device: other.clone(), timing: Some(Timing::new(vec![3.0; 6])), ..record(7) };
    store.insert(&[record(5), record(3), slow, library, elsewhere.clone()], None).unwrap();
    assert_eq!(store.hit(&key, &record(1).device).unwrap(), Some(record(3)));
    assert_eq!(store.hit(&key, &other).unwrap(), Some(elsewhere));
    assert_eq!(store.hit("another key", &other).unwrap(), None);
    assert_eq!(store.best_per_problem().unwrap().len(), 2);
    // Timed again, and found slower: the later counts.
    let again = Record { timing: Some(Timing::new(vec![500.0; 9])), ..record(3) };
    store.insert(&[again], None).unwrap();
    assert_eq!(store.hit(&key, &record(1).device).unwrap(), Some(record(5)));
}

#[test]
fn what_is_done_is_done_for_one_workload_on_one_device_and_one_ptx() {
    let folder = folder();
    let mut store = Store::open(folder.path().join("a.db")).unwrap();
    let hang = Record { verdict: Verdict::Hang, timing: None, dense: None, error: Some("no end".into()), ..record(2) };
    store.insert(&[record(1), hang], None).unwrap();
    let Record { problem: TuningProblem { workload, .. }, device, .. } = record(1);
    let done = store.done(&workload, &device).unwrap();
    let point = |at: u32| (record(at).subject, record(at).ptx);
    assert_eq!(done, Done::from([point(1), point(2)]));
    assert!(!done.contains(&(record(1).subject, "other ptx".into())));
    assert!(store.done(&Workload { seed: 8, ..workload.clone() }, &device).unwrap().is_empty());
    assert!(store.done(&workload, &DeviceId { driver: "2".into(), ..device }).unwrap().is_empty());
}

#[test]
fn runs_keep_their_histogram() {
    let folder = folder();
    let mut store = Store::open(folder.path().join("a.db")).unwrap();
    let id = store.begin(&run()).unwrap();
    assert_eq!(store.runs().unwrap()[0].ended, None);
    store.end(id, "complete", &[rejection("stages", 2), rejection("registers", 9)]).unwrap();
    let runs = store.runs().unwrap();
    assert_eq!((runs.len(), &runs[0].run), (1, &run()));
    assert_eq!(runs[0].how.as_deref(), Some("complete"));
    assert_eq!(runs[0].rejections, [rejection("registers", 9), rejection("stages", 2)]);
}

/// Asserts that opening fails, and that the file is as it was.
fn refused(path: &Path) -> String {
    let before = std::fs::read(path).unwrap();
    let error = Store::open(path).unwrap_err();
    assert_eq!(std::fs::read(path).unwrap(), before, "{error}");
    assert!(error.to_string().contains("help:"), "{error}");
    error.to_string()
}

#[test]
fn files_that_are_not_ours_are_refused_and_left_alone() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("text"), "bm = 64\n".repeat(400)).unwrap();
    assert!(refused(&path("text")).contains("not an SQLite database"));

    Connection::open(path("other")).unwrap().execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
    assert!(refused(&path("other")).contains("(application_id 0x00000000, 1 tables; ours is 0x62737274)"));
    let id = "PRAGMA application_id = 17";
    Connection::open(path("numbered")).unwrap().execute_batch(id).unwrap();
    assert!(refused(&path("numbered")).contains("(application_id 0x00000011, 0 tables;"));

    assert!(Store::existing(path("none")).unwrap_err().to_string().contains("no such file"));
    assert!(!path("none").exists());
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("a.db");
    Store::open(&path)
        .unwrap()
        .connection
        .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA user_version = 2")
        .unwrap();
    assert!(refused(&path).contains("schema 2, this version reads up to 1"));
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("a.db");
    let mut store = Store::open(&path).unwrap();
    store.insert(&(0..500).map(record).collect::<Vec<_>>(), None).unwrap();
    store.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE").unwrap();
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    let half = damaged.len() / 2;
    damaged[half..half + 20_000].fill(0xA5);
    std::fs::write(&path, &damaged).unwrap();
    assert!(refused(&path).contains("the database is damaged: "));
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(refused(&path).contains("the database is damaged: "));
}

#[test]
fn writers_at_once_lose_nothing() {
    const WRITERS: u32 = 4;
    const EACH: u32 = 500;
    let folder = folder();
    let path = folder.path().join("a.db");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = &path;
            scope.spawn(move || {
                // Each opens, and one of them makes, the file.
                let mut store = Store::open(path).unwrap();
                for at in 0..EACH {
                    // The first hundred are the same for all of them.
                    let at = if at < 100 { at } else { writer * 1000 + at };
                    store.insert(&[record(at)], None).unwrap();
                }
            });
        }
    });
    let store = Store::existing(&path).unwrap();
    assert_eq!(store.len().unwrap(), (100 + WRITERS * (EACH - 100)) as usize);
    assert_eq!(store.done(&record(0).problem.workload, &record(0).device).unwrap().len(), store.len().unwrap());
}

#[test]
fn merging_is_idempotent_and_takes_everything() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let mut one = Store::open(path("1")).unwrap();
    let id = one.begin(&run()).unwrap();
    one.insert(&[record(1), record(2)], Some(id)).unwrap();
    one.end(id, "complete", &[rejection("stages", 2)]).unwrap();
    let elsewhere = Record { device: DeviceId { name: "b".into(), ..record(3).device }, ..record(3) };
    Store::open(path("2")).unwrap().insert(&[elsewhere.clone(), record(2)], None).unwrap();
    let mut all = Store::open(path("all")).unwrap();
    assert_eq!(all.merge(path("1")).unwrap(), Merged { read: 2, new: 2, left: vec![] });
    assert_eq!(all.merge(path("2")).unwrap(), Merged { read: 2, new: 1, left: vec![] });
    assert_eq!(all.merge(path("1")).unwrap(), Merged { read: 2, new: 0, left: vec![] });
    assert_eq!(all.records().unwrap(), [record(1), record(2), elsewhere]);
    assert_eq!(all.runs().unwrap(), one.runs().unwrap());
    assert!(all.merge(path("all")).unwrap_err().to_string().contains("into itself"));
    assert!(all.merge(path("none")).unwrap_err().to_string().contains("no such file"));
}

#[test]
fn exports_hold_every_record() {
    let folder = folder();
    let mut store = Store::open(folder.path().join("a.db")).unwrap();
    let wrong = Record {
        verdict: Verdict::Wrong,
        error: Some("off by \"2\",\nor more".into()),
        timing: None,
        dense: None,
        ..record(2)
    };
    let sm_mhz = Some(Clock { min: 1400, median: 1500, max: 1700 });
    let power = Power { watts: None, limit_watts: None, sm_mhz, memory_mhz: None, reasons: vec![], samples: 2 };
    let right = Record { power: Some(power), ..record(1) };
    store.insert(&[right.clone(), wrong.clone()], None).unwrap();
    let (mut table, mut lines) = (Vec::new(), Vec::new());
    let records = store.records().unwrap();
    export_csv(&records, &mut table).unwrap();
    export_json(&records, &mut lines).unwrap();
    let mut reader = csv::Reader::from_reader(&table[..]);
    let heads = reader.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(&rows[0][column("median_us")], "101.0");
    assert_eq!([&rows[0][column("kilocycles")], &rows[0][column("sm_mhz")]], ["151.5", "1500"]);
    assert_eq!(&rows[0][column("samples_us")], "101 101 101 101 101 101");
    assert_eq!((&rows[1][column("verdict")], &rows[1][column("error")]), ("wrong", wrong.error.as_deref().unwrap()));
    let text = String::from_utf8(lines).unwrap();
    let read: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, [right, wrong]);
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |x| x.is_finite()),
        Just(0.0),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE)
    ]
}

prop_compose! {
    fn a_problem()(
        block in (1_u32..64, 1_u32..64),
        (m, n, k) in (1_usize..1 << 27, 1_usize..1 << 27, 1_usize..1 << 27),
        source in prop_oneof![
            ".*".prop_map(Source::Pattern),
            "[^\0]{1,20}".prop_map(|path| Source::File(path.into())),
            ("[^\0]{1,20}", ".*").prop_map(|(file, name)| Source::Tensor { file: file.into(), name }),
            (".*", 1_usize..9, 1_usize..99, 1_usize..9).prop_map(|(pattern, batch, heads, key_heads)| {
                Source::Mask { pattern, heads: Heads { batch, heads, key_heads } }
            }),
            Just(Source::Given),
        ],
        seed in any::<u64>(),
        counts in (0.0..=1.0, 0.0..=1.0),
        parts in (0.0..5.0, 0.0..1.0, 1.0..8.0),
    ) -> TuningProblem {
        let facts: Facts = format!("bm = {}, bk = {}, dtype = bf16, scale = row_col", 8 * block.0, 8 * block.1).parse().unwrap();
        let (bm, bk) = facts.block();
        let (block_rows, block_cols) = (m.div_ceil(bm), k.div_ceil(bk));
        let longest_row = (counts.0 * block_cols as f64) as usize;
        let nnzb = (counts.1 * (longest_row * block_rows).min(i32::MAX as usize / bm) as f64) as usize;
        let (row_spread, empty_rows, reuse) = parts;
        TuningProblem {
            workload: Workload { facts, m, n, k, source, seed },
            features: Features { block_rows, block_cols, nnzb, longest_row, row_spread, empty_rows, reuse },
            second: None,
        }
    }
}

prop_compose! {
    fn a_record()(
        problem in a_problem(),
        (subject, plan, ptx, version) in (".{0,40}", ".{0,16}", ".{0,16}", ".{0,8}"),
        baseline in any::<bool>(),
        (kind, name, driver) in (0_usize..3, ".{0,20}", ".{0,20}"),
        verdict in 0_usize..6,
        watchdog_s in proptest::option::of(1e-3..1e6),
        error in proptest::option::of(".{0,60}"),
        numbers in proptest::array::uniform3(proptest::option::of(finite())),
        samples in proptest::option::of(proptest::collection::vec(1e-3..1e9, 0..50)),
        power in proptest::option::of((proptest::option::of(0.0..1e4), any::<u32>(), ".{0,20}")),
        dense in proptest::option::of((1e-3..1e9, 0_u64..1 << 62, 0.0..9.0)),
        nanoseconds in 0_i128..4_000_000_000_000_000_000,
    ) -> Record {
        Record {
            problem, subject, baseline, plan, ptx,
            device: DeviceId { kind: [DeviceKind::Gpu, DeviceKind::Sim, DeviceKind::Fake][kind], name, driver },
            version,
            verdict: Verdict::ALL[verdict],
            error,
            predicted_us: numbers[0],
            timing: samples.map(Timing::new),
            dense: dense.map(|(median_us, flops, ratio)| Dense { median_us, flops, ratio }),
            relative_error: numbers[1],
            compile_ms: numbers[2],
            watchdog_s,
            power: power.map(|(watts, mhz, reason)| Power {
                watts,
                limit_watts: None,
                sm_mhz: Some(Clock { min: 1, median: mhz, max: mhz }),
                memory_mhz: Some(mhz),
                reasons: vec![reason],
                samples: 3,
            }),
            at: jiff::Timestamp::from_nanosecond(nanoseconds).unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_written_is_read_back(records in proptest::collection::vec(a_record(), 1..6)) {
        let folder = folder();
        let mut store = Store::open(folder.path().join("a.db")).unwrap();
        store.insert(&records, None).unwrap();
        prop_assert_eq!(&store.records().unwrap(), &records);
        let Record { problem, device, subject, ptx, .. } = &records[0];
        prop_assert!(store.of_problem(&problem.key()).unwrap().contains(&records[0]));
        prop_assert!(store.done(&problem.workload, device).unwrap().contains(&(subject.clone(), ptx.clone())));
    }
}

fn rejection(reason: &str, points: usize) -> Rejection {
    Rejection { problem: "p".into(), reason: reason.into(), points }
}
