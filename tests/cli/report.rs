//! `bsr report`: records in, tables and a page out.

use std::fs;
use std::io::Write as _;

use bsr::{Pattern, Structure};
use bsr_tuner::{Dense, DeviceId, DeviceKind, Facts, Record, Source, Timing, TuningProblem, Verdict, Workload};
use predicates::prelude::*;

use crate::bsr;

fn record(kind: DeviceKind, stages: u32) -> Record {
    let facts: Facts = "bm = 128, bk = 64, dtype = bf16".parse().unwrap();
    let structure: Structure = Pattern::TopK(4).structure(1024, 1024, facts.block(), 1).unwrap();
    let source = Source::Pattern("topk:4".to_owned());
    let problem = TuningProblem::new(Workload { facts, m: 1024, n: 512, k: 1024, source, seed: 1 }, &structure);
    let timing = Timing::new(vec![20.0 + f64::from(stages); 9]);
    Record {
        problem,
        subject: format!("bm = 128, bn = 128, bk = 64, dtype = bf16, stages = {stages}"),
        baseline: false,
        plan: String::new(),
        ptx: String::new(),
        device: DeviceId { kind, name: "a device".to_owned(), driver: "1".to_owned() },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        verdict: Verdict::Timed,
        error: None,
        predicted_us: None,
        dense: Some(Dense { median_us: 20.0, flops: 1, ratio: 20.0 / timing.median_us }),
        timing: Some(timing),
        relative_error: Some(1e-4),
        compile_ms: None,
        watchdog_s: None,
        power: None,
        at: "2026-11-21T12:00:00Z".parse().unwrap(),
    }
}

fn lines(records: &[Record]) -> String {
    records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect()
}

#[test]
fn records_become_tables_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let predicted = predicate::str::contains("| predicted us |").and(predicate::str::contains("|   us |"));
    let records = [record(DeviceKind::Gpu, 4), record(DeviceKind::Gpu, 3), record(DeviceKind::Sim, 2)];
    bsr(&["report", "-", "-o", page.to_str().unwrap()])
        .write_stdin(lines(&records) + "\n")
        .assert()
        .code(0)
        .stdout(predicate::str::contains("#[bsr_kernel(bm = 128, bn = 128, bk = 64, dtype = bf16, stages = 3)]"))
        .stdout(predicate::str::contains("1024 x 512 x 1024, 128 x 64, topk:4; dtype = bf16"))
        .stdout(predicate::str::contains("MODEL"))
        .stdout(predicate::str::contains("3 records").and(predicted));
    let text = fs::read_to_string(page).unwrap();
    assert!(text.starts_with("<!DOCTYPE html>") && text.contains("plotly.js v"));
}

/// A database of many products is shown by its first ones: what is printed, and the page, have an end.
#[test]
fn twenty_thousand_products_are_a_report_too() {
    const PRODUCTS: usize = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let (records, page) = (folder.path().join("r.jsonl"), folder.path().join("page.html"));
    let line = lines(&[record(DeviceKind::Gpu, 4)]);
    assert_eq!(line.matches("\"seed\":1").count(), 1);
    let mut file = std::io::BufWriter::new(fs::File::create(&records).unwrap());
    for seed in 0..PRODUCTS {
        file.write_all(line.replace("\"seed\":1", &format!("\"seed\":{seed}")).as_bytes()).unwrap();
    }
    drop(file);
    let done = bsr(&["report", "r.jsonl", "-o", "page.html"]).current_dir(folder.path()).assert().code(0);
    let said = String::from_utf8(done.get_output().stdout.clone()).unwrap();
    let left = PRODUCTS - bsr_tuner::report::MOST_PRODUCTS;
    assert!(said.contains(&format!("{left} of {PRODUCTS} products")), "{}", said.lines().last().unwrap());
    assert!(said.contains(&format!("{PRODUCTS} records")) && said.len() < 4 << 20, "{} bytes", said.len());
    assert!(fs::metadata(page).unwrap().len() < 32 << 20);
}

/// Records that say nothing of a GPU, or of no right kernel, are counted by what is the matter with them.
#[test]
fn products_by_which_nothing_can_be_chosen_are_counted_by_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let of = |n: usize, record: Record| {
        let mut record = record;
        record.problem.workload.n = n;
        record
    };
    let failed = |record: Record| Record { verdict: Verdict::Wrong, timing: None, dense: None, ..record };
    let records = [
        of(1, record(DeviceKind::Gpu, 4)),
        of(1, failed(record(DeviceKind::Gpu, 3))),
        of(2, failed(record(DeviceKind::Gpu, 3))),
        of(3, failed(record(DeviceKind::Gpu, 3))),
        of(4, record(DeviceKind::Sim, 2)),
    ];
    bsr_tuner::Store::open(&path).unwrap().insert(&records, None).unwrap();
    let told = "left out  3 of 4 products: 2: no kernel of ours was right and timed to the end; 1: their times are \
                predicted, not measured on a GPU\n";
    let told = || predicate::str::contains(told);
    let tuned = folder.path().join("tuned.jsonl");
    bsr(&["export", path.to_str().unwrap(), "--tuned", tuned.to_str().unwrap()])
        .assert()
        .success()
        .stdout(predicate::str::contains("1 problems to").and(told()));
    bsr(&["loss", path.to_str().unwrap()]).assert().success().stdout(told());
}

/// Sizes that no flag asks for; and standard input of nothing.
#[test]
fn what_no_problem_is_like_is_refused_and_nothing_is_said_to_be_nothing() {
    let line = lines(&[record(DeviceKind::Gpu, 4)]);
    for (was, is, told) in [
        ("\"m\":1024", "\"m\":10000000000", "a size of 10000000000, and sizes are 1 to 134217728"),
        ("\"k\":1024", "\"k\":100000000", "128 x 64 is 8 x 1562500 blocks, and the pattern has 8 x 16"),
        ("\"block_rows\":8", "\"block_rows\":10000000000", "8 x 16 blocks, and the pattern has 10000000000 x 16"),
        ("\"nnzb\":32", "\"nnzb\":33", "at most 4 in a block row, and 33 are stored"),
    ] {
        assert_eq!(line.matches(was).count(), 1, "{line}");
        bsr(&["report", "-", "-o", "-"])
            .write_stdin(line.replace(was, is))
            .assert()
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(told).and(predicate::str::contains("line 1, is no record")));
    }
    bsr(&["report", "-"]).write_stdin("").assert().code(0).stderr("warning: there is no record to show\n");
}

#[test]
fn what_is_no_record_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("records.jsonl");
    fs::write(&file, lines(&[record(DeviceKind::Gpu, 2)]) + "{\"ratio\": 1}\n").unwrap();
    let name = file.to_str().unwrap();
    bsr(&["report", name])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("line 2, is no record").and(predicate::str::contains("bsr export DB --json")));
    bsr(&["report", "nowhere.jsonl"]).assert().code(2).stderr(predicate::str::contains("cannot read nowhere.jsonl"));
    bsr(&["report", name, "-o", name]).assert().code(2).stderr(predicate::str::contains("would replace"));
    assert!(fs::read_to_string(&file).unwrap().contains("ratio"));
}

/// The databases of two cards, and of one card with two drivers, are merged without mixing, and shown side by side.
#[test]
fn cards_are_shown_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let of = |name: &str, driver: &str, stages: u32, us: f64| {
        let made = record(DeviceKind::Gpu, stages);
        let (name, driver) = (name.to_owned(), driver.to_owned());
        let dense = Some(Dense { median_us: 20.0, flops: 1, ratio: 20.0 / us });
        Record {
            device: DeviceId { name, driver, ..made.device },
            timing: Some(Timing::new(vec![us; 9])),
            dense,
            ..made
        }
    };
    let cards = [
        ("a.db", vec![of("NVIDIA H200", "1", 3, 10.0), of("NVIDIA H200", "1", 4, 12.0)]),
        ("b.db", vec![of("NVIDIA H100", "1", 3, 30.0), of("NVIDIA H100", "1", 4, 20.0)]),
        ("c.db", vec![of("NVIDIA H200", "2", 3, 11.0), record(DeviceKind::Sim, 3)]),
    ];
    for (file, records) in &cards {
        bsr_tuner::Store::open(path(file)).unwrap().insert(records, None).unwrap();
    }
    let files: Vec<String> = cards.iter().map(|(file, _)| path(file)).collect();
    let merged = path("all.db");
    bsr(&["merge", &merged, &files[0], &files[1], &files[2]]).assert().code(0);
    let found = bsr_tuner::Store::existing(&merged).unwrap().records().unwrap();
    let all: Vec<&Record> = cards.iter().flat_map(|(_, records)| records).collect();
    assert_eq!(found.iter().collect::<Vec<_>>(), all, "every record keeps its card and driver");
    let tables = bsr_tuner::report::side_by_side(&found);
    assert_eq!(tables.len(), 1);
    let [h200, h100, newer] = ["NVIDIA H200, driver 1", "NVIDIA H100, driver 1", "NVIDIA H200, driver 2"];
    assert_eq!(tables[0].cards, [h200, h100, newer], "a model is not among them");
    let cells =
        |row: usize| tables[0].rows[row].cells.iter().map(|cell| cell.split(',').next().unwrap()).collect::<Vec<_>>();
    assert!(tables[0].rows[0].kernel.ends_with("stages = 3") && tables[0].rows[0].cells[0].ends_with("(best)"));
    assert_eq!((cells(0), cells(1)), (vec!["10.0 us", "30.0 us", "11.0 us"], vec!["12.0 us", "20.0 us", "-"]));
    let page = folder.path().join("page.html");
    let said = bsr(&["report", &merged, "-o", page.to_str().unwrap()]).assert().code(0);
    said.stdout(predicate::str::contains("several cards").and(predicate::str::contains(h100)));
    assert!(fs::read_to_string(page).unwrap().contains("Several cards side by side"));
}

/// A timeline of the simulator stands with the model's record of its kernel, and is told where there is none.
#[test]
fn timelines_are_shown_with_their_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (records, page) = (path("r.jsonl"), path("page.html"));
    fs::write(&records, lines(&[record(DeviceKind::Sim, 2), record(DeviceKind::Gpu, 2)])).unwrap();
    let problem = ["--n", "512", "--k", "1024", "--pattern", "topk:4", "--seed", "1", "--device", "sim"];
    for (name, m) in [("a.json", "1024"), ("b.json", "128")] {
        let spec = "bm = 128, bn = 128, bk = 64, dtype = bf16, stages = 2";
        let out = path(name);
        bsr(&[&["trace", spec, "--m", m, "-o", &out][..], &problem].concat()).assert().success();
    }
    bsr(&["report", &records, "--traces", &path("a.json"), &path("b.json"), "-o", &page])
        .assert()
        .success()
        .stderr(predicate::str::contains("b.json is left out").and(predicate::str::contains("a.json is").not()));
    let text = fs::read_to_string(&page).unwrap();
    assert_eq!((text.matches("on the simulator</h4>").count(), text.matches("measured</h4>").count()), (1, 0));
    bsr(&["report", &records, "--traces", &records, "-o", &page, "--force"]).assert().code(2);
}
