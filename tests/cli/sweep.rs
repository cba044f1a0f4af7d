//! `bsr sweep`, `merge` and `export` with real processes: backends that hang and crash, a sweep that is killed, two at once.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bsr_tuner::{Record, Store, Verdict};
use predicates::prelude::*;
use predicates::str::contains;

/// How long a test waits for what other processes do: it fails rather than hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Twelve kernels.
const SPACE: &str = "bm = 64, bk = 32, mma = mma_sync, bn = [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192]";

fn subject(bn: u32) -> String {
    format!("bm = 64, bn = {bn}, bk = 32, mma = mma_sync")
}

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, db: &str, script: &str, more: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("bsr"));
        command
            .args(["sweep", "--space", SPACE, "--m", "256", "--n", "256", "--k", "256", "--device", "fake", "--db", db])
            .args(more)
            .env("BSR_FAKE", script)
            .current_dir(self.0.path());
        command
    }

    fn sweep(&self, db: &str, script: &str, more: &[&str]) -> assert_cmd::assert::Assert {
        assert_cmd::Command::from_std(self.command(db, script, more)).assert()
    }

    fn bsr(&self, args: &[&str]) -> assert_cmd::assert::Assert {
        assert_cmd::Command::cargo_bin("bsr").unwrap().args(args).current_dir(self.0.path()).assert()
    }

    fn records(&self, db: &str) -> Vec<Record> {
        Store::existing(self.path(db)).unwrap().records().unwrap()
    }

    /// The kernels of a database, none twice.
    fn kernels(&self, db: &str) -> Vec<Record> {
        let records: Vec<Record> = self.records(db).into_iter().filter(|record| !record.baseline).collect();
        let names: HashSet<&String> = records.iter().map(|record| &record.subject).collect();
        assert_eq!(names.len(), records.len(), "a kernel was measured twice");
        records
    }

    /// Waits until a database holds so many records.
    fn wait_for(&self, db: &str, count: usize) {
        let start = Instant::now();
        while !self.path(db).exists() || Store::open(self.path(db)).unwrap().len().unwrap() < count {
            assert!(start.elapsed() < PATIENCE, "no {count} records");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn quietly(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until none of these backends is left.
fn wait_for_the_end(backends: &[u32]) {
    let start = Instant::now();
    while backends.iter().any(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
        assert!(start.elapsed() < PATIENCE, "a backend has outlived its sweep");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Processes whose parent this is.
fn children(parent: u32) -> Vec<u32> {
    let parent_of = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

#[test]
fn a_deadlock_a_fault_and_a_wrong_result_are_recorded_and_the_sweep_completes() {
    let bench = Bench::new();
    let script = "bn = 16 -> hang; bn = 32 -> fault; bn = 48 -> wrong; bn = 64 -> fault late; bn = 80 -> hang late; \
                  bn = 96 -> fault late; bn = 96 -> unattributed; bn = 112 -> 50 us";
    bench.sweep("a.db", script, &["--watchdog", "3s"]).success().stdout(
        contains("#[bsr_kernel(bm = 64, bn = 112, bk = 32, mma = mma_sync)]").and(contains("2 hang + 3 fault")),
    );
    let kernels = bench.kernels("a.db");
    assert_eq!(kernels.len(), 12);
    let of = |bn: u32| kernels.iter().find(|record| record.subject == subject(bn)).unwrap();
    for (bn, verdict, words) in [
        (16, Verdict::Hang, "no answer within 3 s while checking `bm = 64, bn = 16,"),
        (32, Verdict::Fault, "fault as scripted"),
        (48, Verdict::Wrong, "relative error 0.5"),
        (64, Verdict::Fault, "SIGABRT"),
        (80, Verdict::Hang, "while timing `bm = 64, bn = 80,"),
        (96, Verdict::Fault, "while timing `bm = 64, bn = 96,"),
    ] {
        let Record { verdict: found, error, timing, .. } = of(bn);
        assert!(*found == verdict && error.as_deref().unwrap().contains(words), "bn = {bn}: {found:?} {error:?}");
        assert_eq!(timing, &None);
    }
    let right = kernels.iter().filter(|record| record.verdict.has_time()).count();
    assert_eq!(right, 6);
    assert!(of(112).dense.as_ref().unwrap().ratio > 1.0);
}

/// The same with real kernels. A hang costs the watchdog's time, and a restart.
#[test]
fn on_a_gpu_too_a_deadlock_a_fault_and_a_wrong_result_end_nothing() {
    if !bsr::gpu::Device::is_available() {
        assert!(std::env::var_os("BSR_REQUIRE_GPU").is_none(), "BSR_REQUIRE_GPU is set, and there is no CUDA device");
        let _ = writeln!(std::io::stderr(), "SKIPPED: no CUDA device: kernels broken on purpose");
        return;
    }
    let bench = Bench::new();
    let args = "sweep --kernel bm=64,bk=64 --space bn=[32,64,96,128,160,192,224,256] --m 2048 --n 2048 --k 2048 \
                --pattern random:0.25 --device fault-injection --watchdog 10s --db a.db";
    let script = "bn = 64 -> hang; bn = 128 -> fault; bn = 192 -> wrong";
    let mut command = assert_cmd::Command::cargo_bin("bsr").unwrap();
    command.args(args.split_whitespace()).env("BSR_FAKE", script).current_dir(bench.0.path());
    command.assert().success().stdout(contains("1 hang").and(contains("1 fault")).and(contains("1 wrong")));
    let kernels = bench.kernels("a.db");
    let of = |bn: u32| kernels.iter().find(|record| record.subject.contains(&format!("bn = {bn},"))).unwrap();
    assert_eq!([64, 128, 192].map(|bn| of(bn).verdict), [Verdict::Hang, Verdict::Fault, Verdict::Wrong]);
    assert!([32, 96, 160, 256].iter().all(|bn| of(*bn).verdict.has_time()), "{kernels:#?}");
    // Known from before, the broken ones too.
    command.assert().success().stdout(contains("known from before"));
    assert_eq!(bench.kernels("a.db").len(), kernels.len());
}

#[test]
fn kill_9_loses_nothing_and_the_next_sweep_repeats_nothing() {
    let bench = Bench::new();
    let script = "* -> pause 60";
    let mut child = quietly(bench.command("a.db", script, &[]));
    bench.wait_for("a.db", 5);
    let backends = children(child.id());
    assert!(!backends.is_empty());
    signal(&child, "-KILL");
    child.wait().unwrap();
    let before = bench.records("a.db");
    assert!(before.len() >= 5 && before.len() < 14, "{}", before.len());

    bench.sweep("a.db", "", &[]).success().stdout(contains(format!("{} known from before", before.len() - 2)));
    let after = bench.records("a.db");
    assert_eq!(after[..before.len()], before);
    assert_eq!(bench.kernels("a.db").len(), 12);
    assert_eq!(after.len(), 14);
    let runs = Store::existing(bench.path("a.db")).unwrap().runs().unwrap();
    let how: Vec<_> = runs.iter().map(|run| run.how.as_deref()).collect();
    assert_eq!(how, [None, Some("complete")]);

    wait_for_the_end(&backends);
}

#[test]
fn a_backend_that_hangs_does_not_outlive_a_killed_sweep() {
    let bench = Bench::new();
    let mut child = quietly(bench.command("a.db", "bn = 16 -> hang", &["--watchdog", "1h"]));
    bench.wait_for("a.db", 2);
    // One measures, the others compile.
    let backends = children(child.id());
    assert!(!backends.is_empty());
    signal(&child, "-KILL");
    child.wait().unwrap();
    wait_for_the_end(&backends);
}

#[test]
fn ctrl_c_ends_after_the_current_call_and_says_how_to_go_on() {
    let bench = Bench::new();
    let mut command = bench.command("a.db", "* -> pause 60", &["--strategy", "random"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    bench.wait_for("a.db", 5);
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(
        text.contains("ended by Ctrl-C") && text.contains("the same command goes on: bsr sweep --space 'bm"),
        "{text}"
    );
    assert!(bench.kernels("a.db").len() < 12);
    bench.sweep("a.db", "", &[]).success();
    assert_eq!(bench.kernels("a.db").len(), 12);
}

#[test]
fn two_sweeps_at_once_write_one_database() {
    let bench = Bench::new();
    let start = |shard: &str| quietly(bench.command("a.db", "", &["--shard", shard]));
    for mut child in ["1/2", "2/2"].map(start) {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(bench.kernels("a.db").len(), 12);
}

#[test]
fn equal_sweeps_at_once_measure_everything_once() {
    let bench = Bench::new();
    let start = || quietly(bench.command("a.db", "* -> pause 30", &["--strategy", "exhaustive"]));
    for mut child in [(); 4].map(|()| start()) {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(bench.kernels("a.db").len(), 12);
    // Two libraries, once each.
    assert_eq!(bench.records("a.db").len(), 14);
}

#[test]
fn what_another_sweep_was_at_when_it_was_killed_is_measured() {
    let bench = Bench::new();
    let mut child = quietly(bench.command("a.db", "* -> pause 100", &[]));
    bench.wait_for("a.db", 3);
    signal(&child, "-KILL");
    child.wait().unwrap();
    bench.sweep("a.db", "", &[]).success();
    assert_eq!((bench.kernels("a.db").len(), bench.records("a.db").len()), (12, 14));
}

#[test]
fn a_hang_is_tried_again_with_more_time_or_when_asked_for() {
    let bench = Bench::new();
    let of = |bn: u32| {
        let mut records = bench.records("a.db").into_iter().filter(|record| record.subject == subject(bn));
        records.next_back().map(|record| (record.verdict, record.watchdog_s)).unwrap()
    };
    let slow = "bn = 16 -> pause 3000; bn = 32 -> hang";
    bench.sweep("a.db", slow, &["--watchdog", "1s"]).success().stdout(contains("2 hang"));
    assert_eq!([of(16), of(32)], [(Verdict::Hang, Some(1.0)); 2]);
    // As much time, or less, changes nothing.
    let known = || contains("12 known from before");
    bench.sweep("a.db", slow, &["--watchdog", "1s"]).success().stdout(known());
    bench.sweep("a.db", slow, &["--watchdog", "800ms"]).success().stdout(known());
    bench.sweep("a.db", slow, &["--watchdog", "9s"]).success().stdout(contains("10 known from before"));
    assert_eq!([of(16).1, of(32).1], [None, Some(9.0)]);
    assert!(of(16).0.has_time());
    // Asked for, whatever the time.
    bench.sweep("a.db", "", &["--watchdog", "9s"]).success().stdout(known());
    bench
        .sweep("a.db", "", &["--watchdog", "9s", "--retry", "hang"])
        .success()
        .stdout(contains("11 known from before"));
    assert!(of(32).0.has_time());
    bench.sweep("a.db", "", &["--retry", "hangs"]).code(2).stderr(contains("timed, slow, wrong, hang"));
}

#[test]
fn shards_are_merged_and_exported() {
    let bench = Bench::new();
    for shard in ["1/3", "2/3", "3/3"] {
        bench.sweep(&format!("{}.db", &shard[..1]), "", &["--shard", shard]).success();
    }
    bench.bsr(&["merge", "all.db", "1.db", "2.db", "3.db"]).success().stdout(contains("all.db, 18 records"));
    bench.bsr(&["merge", "all.db", "2.db"]).success().stdout(contains("2.db: 0 of"));
    assert_eq!(bench.kernels("all.db").len(), 12);
    bench.bsr(&["export", "all.db", "--csv", "a.csv", "--json", "a.jsonl"]).success();
    let lines = |name: &str| std::fs::read_to_string(bench.path(name)).unwrap().lines().count();
    assert_eq!((lines("a.csv"), lines("a.jsonl")), (19, 18));
    bench.bsr(&["export", "all.db"]).success().stdout(contains("median_us").and(contains(subject(112))));
    bench.bsr(&["export", "none.db"]).code(2).stderr(contains("none.db: no such file"));
    bench.bsr(&["merge", "new.db", "1.db", "none.db"]).code(2);
    assert!(!bench.path("new.db").exists());
}

#[test]
fn a_limit_and_two_backends_and_halving() {
    let bench = Bench::new();
    bench.sweep("a.db", "", &["--limit", "5"]).success().stdout(contains("ended by --limit"));
    assert_eq!(bench.kernels("a.db").len(), 5);
    let all = bench.sweep("b.db", "", &["--devices", "0,1", "--halving"]).success();
    all.stdout(contains("12 = "));
}

#[test]
fn a_backend_that_cannot_open_its_workload_ends_the_sweep() {
    let bench = Bench::new();
    bench
        .sweep("a.db", "open -> fault", &[])
        .code(1)
        .stderr(contains("the backend crashed 3 times while opening").and(contains("fault as scripted")));
    let runs = Store::existing(bench.path("a.db")).unwrap().runs().unwrap();
    assert!(runs[0].how.as_deref().unwrap().starts_with("error: no backend can go on"));
}

#[test]
fn what_the_compiler_refuses_is_recorded_and_not_tried_again() {
    let bench = Bench::new();
    for known in ["; 0 known from before", "; 12 known from before"] {
        bench.sweep("a.db", "bn = 80 -> too big", &[]).success().stdout(contains(known));
        let kernels = bench.kernels("a.db");
        let refused = kernels.iter().find(|record| record.subject == subject(80)).unwrap();
        assert_eq!((kernels.len(), refused.verdict), (12, Verdict::Refused));
        assert!(refused.error.as_deref().unwrap().contains("is too big, as scripted"));
        assert_eq!(kernels.iter().filter(|record| record.verdict.has_time()).count(), 11);
    }
}

#[test]
fn wrong_input_is_told() {
    let bench = Bench::new();
    std::fs::write(bench.path("text.db"), "no database ".repeat(100)).unwrap();
    bench.sweep("text.db", "", &[]).code(2).stderr(contains("text.db: not an SQLite database"));
    let sweep = |space: &str| bench.bsr(&["sweep", "--space", space, "--device", "fake"]);
    sweep("quickly").code(2).stderr(contains("there is no space `quickly`"));
    sweep("bm = 64, bn = [64, wide], bk = 32").code(2).stderr(contains("bn"));
    sweep("bn = [64, 128]").code(2).stderr(contains("bm"));
    sweep("bm = 64, bn = [64], bk = 32, stage = 3").code(2).stderr(contains("stages"));
    bench.sweep("a.db", "", &["--shard", "0/2"]).code(2).stderr(contains("1/4 for the first of four"));
    bench.sweep("a.db", "", &["--budget", "5"]).code(2).stderr(contains("5m"));
}

/// Without a GPU one kind of number is told, the one that orders kernels: what the analytic model predicts for the whole
/// problem, which is told as it was typed. The simulator's cycles are none of it.
#[test]
fn without_a_gpu_the_model_ranks_and_the_simulator_checks() {
    let bench = Bench::new();
    let args =
        ["sweep", "--space", "bn = [64, 128], stages = 2..=3", "--kernel", "bm = 64, bk = 64", "--device", "sim"];
    let problem = ["--m", "512", "--n", "256", "--k", "512", "--pattern", "topk:2"];
    let output = bench.bsr(&[&args[..], &problem].concat()).success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(text.contains("bm = 64, bk = 64; m = 512, n = 256, k = 512; topk:2, seed 0"), "{text}");
    assert!(text.contains("model of the NVIDIA H200") && text.contains("nothing is measured"), "{text}");
    let header = text.lines().find(|line| line.starts_with('|')).unwrap();
    let columns: Vec<&str> = header.split('|').map(str::trim).filter(|title| !title.is_empty()).collect();
    assert_eq!(columns, ["predicted us", "error", "kernel"]);
    let kernels = bench.kernels("bsr.db");
    assert_eq!(kernels.len(), 4);
    for record in &kernels {
        assert!(record.verdict.has_time() && record.relative_error.is_some_and(|error| error < 1e-3), "{record:?}");
        assert_eq!(record.device.kind, bsr_tuner::DeviceKind::Sim);
        // The order of the search and the time that is told are one number.
        assert_eq!(record.predicted_us, record.timing.as_ref().map(|timing| timing.median_us));
    }
}

/// The array script of the book, with the shell in the place of the scheduler: a task that is killed is started again, as
/// `--requeue` does, one comes twice, and one comes late, after the databases were merged.
#[test]
fn a_slurm_array_loses_and_repeats_nothing() {
    let bench = Bench::new();
    let script = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/slurm").join(name);
    let task = |id: u32, pause: &str| {
        let mut command = Command::new("bash");
        command.arg(script("sweep.sbatch")).args(["--space", SPACE, "--m", "256", "--n", "256", "--k", "256"]);
        command.args(["--device", "fake", "--strategy", "exhaustive"]).current_dir(bench.0.path());
        let ids = [("SLURM_ARRAY_TASK_ID", id.to_string()), ("SLURM_ARRAY_TASK_COUNT", "3".to_owned())];
        command.envs(ids).env("BSR", assert_cmd::cargo::cargo_bin("bsr")).env("BSR_FAKE", pause);
        command
    };
    let merge = || {
        let mut command = Command::new("bash");
        command.arg(script("merge.sbatch")).args(["all.db", "all.html"]).current_dir(bench.0.path());
        let output = command.env("BSR", assert_cmd::cargo::cargo_bin("bsr")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let mut dies = quietly(task(2, "* -> pause 150"));
    // Two libraries, and a kernel.
    bench.wait_for("parts/part-2.db", 3);
    signal(&dies, "-KILL");
    dies.wait().unwrap();
    let before = bench.kernels("parts/part-2.db").len();
    assert!(quietly(task(3, "")).wait().unwrap().success());
    let second = bench.kernels("parts/part-3.db").len();
    merge();
    assert_eq!(bench.kernels("all.db").len(), before + second);

    let again = task(2, "").output().unwrap();
    let words = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(words.contains(&format!("{before} known from before")), "{words}");
    let first = bench.kernels("parts/part-2.db").len();
    assert!(before > 0 && before < first, "{before} of {first} kernels before it was killed");
    let twice = task(3, "").output().unwrap();
    assert!(String::from_utf8_lossy(&twice.stdout).contains(&format!("{second} known from before")));
    assert!(quietly(task(1, "")).wait().unwrap().success());
    merge();
    assert_eq!(bench.kernels("all.db").len(), 12);
    assert!(bench.path("all.html").exists());
}

/// B is drawn of the density of A: what is stored does not tell its pattern, which follows.
#[test]
fn a_product_of_two_sparse_factors_is_swept_and_explained() {
    let bench = Bench::new();
    let kernel = "op = sss, bm = 64, bn = 64, bk = 64";
    let problem = ["--m", "256", "--n", "320", "--k", "256", "--pattern", "random:0.5"];
    let sweep = ["sweep", "--kernel", kernel, "--device", "sim", "--limit", "3", "--db", "a.db"];
    let all = [&sweep[..], &problem].concat();
    bench.bsr(&all).success().stdout(contains("3 = 3 predicted"));
    let records = bench.kernels("a.db");
    assert_eq!(records.len(), 3);
    for record in &records {
        assert_eq!(record.verdict, Verdict::Timed, "{}", record.subject);
        let second = record.problem.second().unwrap();
        assert_eq!((second.features.block_rows, second.features.block_cols), (4, 5));
        assert_eq!(record.problem.executed_flops(), 2 * second.pairs * 64 * 64 * 64);
        assert!(second.pairs > 0 && second.written <= 20, "{second:?}");
    }
    bench.bsr(&all).success().stdout(contains("3 known from before"));
    let explain = ["explain", kernel, "--db", "a.db", "--gpu", "H200"];
    bench.bsr(&[&explain[..], &problem].concat()).success().stdout(contains("; B: density 2^-1.0"));
    bench.bsr(&["report", "a.db", "--output", "a.html"]).success();
}

/// An attention is swept as a product is: its heads and lengths are in the database, and it is explained and reported.
#[test]
fn an_attention_is_swept_explained_and_reported() {
    let bench = Bench::new();
    let kernel = "op = attention, bm = 64, bn = 32, bk = 64, d = 48, score = \"|a: Rows<f32>, b: Cols<f32>| if a == b { s * scale } \
                  else { -inf }\"";
    let problem = ["--m", "1000", "--n", "900", "--heads", "4", "--key-heads", "2", "--pattern", "causal"];
    let sweep = ["sweep", "--kernel", kernel, "--device", "sim", "--limit", "2", "--db", "a.db"];
    let all = [&sweep[..], &problem].concat();
    bench.bsr(&all).success().stdout(contains("1 x 4 heads, 2 of K and V").and(contains("2 = 2 predicted")));
    let records = bench.kernels("a.db");
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record.verdict, Verdict::Timed);
        let workload = &record.problem.workload;
        assert_eq!((workload.m, workload.n, workload.k), (1000, 900, 48));
        assert_eq!((workload.source.heads().heads, workload.source.heads().key_heads), (4, 2));
        let blocks = record.problem.features.nnzb as u64;
        assert_eq!(record.problem.executed_flops(), 2 * blocks * 64 * 64 * (48 + 32) * 4);
    }
    // The same command goes on from there.
    bench.bsr(&all).success().stdout(contains("2 known from before"));
    bench.bsr(&["report", "a.db", "-o", "a.html"]).success().stdout(contains("op = attention"));
    let explain = [&["explain", kernel, "--db", "a.db", "--gpu", "NVIDIA H200"][..], &problem].concat();
    bench.bsr(&explain).success().stdout(contains("cost model ranks it first").and(contains("op = attention")));
    let wrong = ["sweep", "--kernel", kernel, "--device", "sim", "--k", "64", "--db", "b.db"];
    bench.bsr(&wrong).failure().stderr(contains("--k beside op = attention"));
}

/// The file is gone while the sweep measures: it ends, says so, and has saved what it had.
#[test]
fn a_database_that_is_deleted_meanwhile_ends_the_sweep() {
    let bench = Bench::new();
    let sweep = quietly(bench.command("a.db", "* -> pause 100", &["--strategy", "exhaustive"]));
    bench.wait_for("a.db", 4);
    std::fs::remove_file(bench.path("a.db")).unwrap();
    let output = sweep.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let names =
        std::fs::read_dir(bench.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let saved = names.into_iter().find(|name| name.starts_with("a.db.") && name.ends_with(".saved")).unwrap();
    assert!(bench.kernels(&saved).len() >= 2);
}

#[test]
fn points_that_were_not_looked_at_are_counted_and_told() {
    let bench = Bench::new();
    let limited = bench.sweep("a.db", "", &["--limit", "5"]).success();
    limited.stdout(contains("ended by --limit, 7 not looked at"));
    let page = || {
        bench.bsr(&["report", "a.db", "-o", "a.html", "--force"]).success();
        std::fs::read_to_string(bench.path("a.html")).unwrap()
    };
    assert!(page().contains("not looked at: the sweep ended before (limit)"));
    bench.sweep("a.db", "", &[]).success();
    assert!(!page().contains("the sweep ended before"));
}

/// One product in blocks of three sizes: each has its best kernel, and the fastest is named; the report shows them again.
#[test]
fn block_sizes_are_compared_and_the_fastest_is_named() {
    let bench = Bench::new();
    let problem = ["--m", "256", "--n", "256", "--k", "256", "--pattern", "random:0.5", "--db", "a.db", "--limit", "2"];
    let sweep = ["sweep", "--blocks", "32x32,64x64,128x64", "--device", "sim"];
    let said = bench.bsr(&[&sweep[..], &problem].concat()).success();
    let text = String::from_utf8(said.get_output().stdout.clone()).unwrap();
    let (_, table) = text.split_once("blocks    256 x 256 x 256, random:0.5\n").unwrap();
    let us: Vec<(f64, &str)> = table
        .lines()
        .filter(|line| line.starts_with("|") && line.contains("bm = "))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            (cells[3].parse().unwrap(), cells[1])
        })
        .collect();
    assert_eq!(us.len(), 3, "{table}");
    let least = us.iter().map(|(us, _)| *us).fold(f64::INFINITY, f64::min);
    let named = table.split_once("fastest   ").unwrap().1.split(';').next().unwrap();
    assert!(us.iter().any(|(us, block)| *us <= least && *block == named), "{named} of {us:?}");
    let report = bench.bsr(&["report", "a.db", "--blocks", "sizes.svg", "-o", "page.html"]).success();
    report.stdout(contains(format!("fastest   {named}; ")));
    let read = |name: &str| std::fs::read_to_string(bench.path(name)).unwrap();
    assert!(read("sizes.svg").matches("<rect").count() == 3 && read("page.html").contains("Block sizes"));
    bench
        .bsr(&["sweep", "--blocks", "32x32", "--kernel", "bm = 64", "--db", "a.db", "--device", "sim"])
        .code(2)
        .stderr(contains("`bm` is given twice"));
    bench.bsr(&["sweep", "--blocks", "32", "--db", "a.db"]).code(2).stderr(contains("64x32"));
    let one = ["sweep", "--kernel", "bm = 64, bk = 64", "--limit", "1", "--device", "sim", "--db", "b.db"];
    bench.bsr(&[&one[..], &problem[..8]].concat()).success().stdout(contains("blocks    ").not());
    bench.bsr(&["report", "b.db", "--blocks", "none.svg"]).code(2).stderr(contains("bsr sweep --blocks"));
}
