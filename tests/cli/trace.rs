//! The trace of a simulated run, as a viewer reads it.

use std::collections::{BTreeMap, HashSet};

use assert_cmd::Command;
use serde_json::Value;

/// The trace of a kernel on a problem of a few tiles.
fn trace(spec: &str, problem: &[&str]) -> Value {
    let args = ["run", spec, "--device", "sim", "--trace", "-"];
    let mut command = Command::cargo_bin("bsr").unwrap();
    let output = command.args(args).args(problem).assert().success().get_output().clone();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The slices of a trace by process and track: beginnings and ends.
fn slices(trace: &Value) -> BTreeMap<(u64, u64), Vec<(u64, u64)>> {
    let mut tracks = BTreeMap::<_, Vec<_>>::new();
    for event in trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X") {
        let number = |name: &str| event[name].as_u64().unwrap();
        let track = (number("pid"), number("tid"));
        tracks.entry(track).or_default().push((number("ts"), number("ts") + number("dur")));
    }
    tracks
}

/// Perfetto's rule for slices on one track: of two, one lies inside the other, or they do not meet. It drops a slice that
/// ends after the one that was open when it began. How many it would drop.
fn dropped(slices: &[(u64, u64)]) -> usize {
    let mut slices = slices.to_vec();
    slices.sort_by_key(|(from, to)| (*from, std::cmp::Reverse(*to)));
    let (mut open, mut dropped) = (Vec::<u64>::new(), 0);
    for (from, to) in slices {
        while open.last().is_some_and(|end| *end <= from) {
            open.pop();
        }
        match open.last() {
            Some(end) if to > *end => dropped += 1,
            _ => open.push(to),
        }
    }
    dropped
}

#[test]
fn the_rule_drops_what_overlaps_without_nesting() {
    assert_eq!(dropped(&[(0, 10), (2, 5), (5, 10), (10, 12)]), 0);
    assert_eq!(dropped(&[(0, 10), (5, 12), (12, 13)]), 1);
}

#[test]
fn a_viewer_shows_every_slice_of_every_kernel() {
    for (spec, problem) in [
        ("bm = 512, bn = 128, bk = 112", &["--m", "1024", "--n", "128", "--k", "560"][..]),
        ("bm = 64, bn = 64, bk = 32", &["--m", "256", "--n", "128"]),
        ("bm = 128, bn = 64, bk = 64, cluster = 2", &["--m", "256", "--n", "128"]),
        ("bm = 16, bn = 64, bk = 16", &["--m", "256", "--n", "128"]),
        ("bm = 64, bn = 64, bk = 64, op = sdd", &["--m", "256", "--n", "256", "--k", "256"]),
        ("bm = 64, bn = 64, bk = 16, mma = mma_sync", &["--m", "128", "--n", "64"]),
        ("bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32", &["--m", "64", "--n", "32"]),
    ] {
        let trace = trace(spec, problem);
        let tracks = slices(&trace);
        assert!(tracks.values().map(Vec::len).sum::<usize>() > 0, "{spec}: an empty trace");
        let dropped: usize = tracks.values().map(|slices| dropped(slices)).sum();
        assert_eq!(dropped, 0, "{spec}");
        // A thread of one process is none of another, and all have names.
        let threads: HashSet<u64> = tracks.keys().map(|(_, thread)| *thread).collect();
        assert_eq!(threads.len(), tracks.len(), "{spec}");
        let events = trace["traceEvents"].as_array().unwrap();
        let named = |what: &str| events.iter().filter(|event| event["name"] == what).count();
        assert_eq!(named("thread_name"), tracks.len(), "{spec}");
        let processes: HashSet<u64> = tracks.keys().map(|(process, _)| *process).collect();
        assert_eq!(named("process_name"), processes.len(), "{spec}");
    }
}

#[test]
fn times_are_called_cycles() {
    let trace = trace("bm = 64, bn = 64, bk = 32", &["--m", "64", "--n", "64"]);
    assert!(trace["otherData"]["times"].as_str().unwrap().contains("1 us = 1 simulated cycle"));
    let events = trace["traceEvents"].as_array().unwrap();
    let process = events.iter().find(|event| event["name"] == "process_name").unwrap();
    assert_eq!(process["args"]["name"], "cluster 0 CTA 0 (1 us = 1 simulated cycle)");
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert_eq!((&event["args"]["from cycle"], &event["args"]["cycles"]), (&event["ts"], &event["dur"]));
    }
}

/// What `bsr trace` writes to standard output, of a run on the simulator.
fn timeline(spec: &str, more: &[&str]) -> Value {
    let mut command = Command::cargo_bin("bsr").unwrap();
    let output = command.args(["trace", spec, "--device", "sim", "-o", "-"]).args(more).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

#[test]
fn a_timeline_of_every_family_keeps_the_rule_and_has_its_roles() {
    for (spec, problem, roles) in [
        ("bm = 64, bn = 64, bk = 32", &["--m", "128", "--n", "64"][..], 3),
        ("bm = 16, bn = 64, bk = 16", &["--m", "128", "--n", "64"], 3),
        ("bm = 64, bn = 64, bk = 64, op = sdd", &["--m", "128", "--n", "128", "--k", "128"], 2),
        ("op = attention, bm = 128, bn = 64, bk = 64", &["--m", "200"], 4),
    ] {
        let trace = timeline(spec, problem);
        let mut tracks = BTreeMap::<(u64, u64), Vec<(u64, u64)>>::new();
        for event in trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X") {
            let number = |name: &str| event[name].as_u64().unwrap();
            let track = (number("pid"), number("tid"));
            tracks.entry(track).or_default().push((number("ts"), number("ts") + number("dur")));
        }
        assert_eq!(tracks.values().map(|slices| dropped(slices)).sum::<usize>(), 0, "{spec}");
        let names: HashSet<String> =
            trace["otherData"]["roles"].as_array().unwrap().iter().map(|role| role["role"].to_string()).collect();
        assert!(names.len() >= roles, "{spec}: {names:?}");
        assert!(trace["otherData"]["times"].as_str().unwrap().contains("1 us = 1 simulated cycle"), "{spec}");
    }
}

#[test]
fn two_timelines_are_compared_and_other_files_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bsr = |args: &[&str]| Command::cargo_bin("bsr").unwrap().current_dir(folder.path()).args(args).assert();
    for (name, stages) in [("a.json", ""), ("b.json", ", stages = 2")] {
        let spec = format!("bm = 64, bn = 64, bk = 32{stages}");
        let output = bsr(&["trace", &spec, "--device", "sim", "--m", "128", "--n", "64", "-o", name]).success();
        let said = String::from_utf8(output.get_output().stdout.clone()).unwrap();
        assert!(said.contains("waiting for full") && said.contains("consumer 1"), "{said}");
    }
    let output = bsr(&["trace", "--compare", "a.json", "b.json"]).success();
    let said = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(said.contains("stages = 2") && said.contains("B - A") && said.contains("waiting for empty"), "{said}");

    std::fs::write(folder.path().join("c.json"), "{\"traceEvents\": []}").unwrap();
    for (args, why) in [
        (&["trace", "--compare", "a.json", "c.json"][..], "names no `roles`"),
        (&["trace", "--compare", "a.json", "missing.json"], "missing.json"),
        (&["trace"], "SPEC"),
        (&["trace", "bm = 64, bn = 64, bk = 32", "--device", "sim", "-o", "a.json"], "--force"),
        (&["trace", "bm = 64, bn = 64, bk = 32", "--ctas", "4..4"], "0..4"),
        (&["trace", "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32"], "mma = wgmma"),
        (&["trace", "bm = 64, bn = 64, bk = 32", "--device", "sim", "--ctas", "900"], "CTAs 900 to 900"),
    ] {
        let output = bsr(args).code(2);
        let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

/// Runs `bsr trace` in a folder: what it says.
fn traced(folder: &tempfile::TempDir, args: &[&str]) -> String {
    let mut command = Command::cargo_bin("bsr").unwrap();
    let output = command.current_dir(folder.path()).arg("trace").args(args).assert().success();
    String::from_utf8(output.get_output().stdout.clone()).unwrap()
}

#[test]
fn specs_are_traced_on_one_problem_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("two.toml"), "bm = 64\nbn = 64\nbk = 32\nstages = 2\n").unwrap();
    let problem = ["--m", "256", "--n", "128", "--k", "320", "--pattern", "topk:5", "--device", "sim"];
    let args = ["--compare", "bm = 64, bn = 64, bk = 32", "two.toml", "-o", "both.json"];
    let said = traced(&folder, &[&args[..], &problem].concat());
    assert_eq!(said.matches("C[256, 128] = A[256, 320] * B[320, 128]").count(), 2, "{said}");
    assert!(said.contains("B  bm = 64, bn = 64, bk = 32, stages = 2") && said.contains("waiting for empty"), "{said}");
    let both: Value = serde_json::from_slice(&std::fs::read(folder.path().join("both.json")).unwrap()).unwrap();
    assert!(slices(&both).values().all(|slices| dropped(slices) == 0) && slices(&both).len() > 6);

    // Beside a file a spec is traced on the file's problem.
    traced(&folder, &[&["bm = 64, bn = 64, bk = 32", "-o", "one.json"][..], &problem].concat());
    let said = traced(&folder, &["--compare", "one.json", "bm = 64, bn = 128, bk = 32", "--device", "sim"]);
    assert!(said.contains("C[256, 128] = A[256, 320] * B[320, 128]") && said.contains("topk:5"), "{said}");
    let attention = ["op = attention, bm = 128, bn = 64, bk = 64", "op = attention, bm = 128, bn = 64, bk = 128"];
    let said = traced(&folder, &["--compare", attention[0], attention[1], "--m", "200", "--device", "sim"]);
    assert!(said.contains("softmax") && said.contains("200 queries"), "{said}");
    // Two of different problems are compared, and that is said.
    traced(&folder, &["bm = 64, bn = 64, bk = 32", "--m", "128", "--n", "64", "--device", "sim", "-o", "other.json"]);
    let mut command = Command::cargo_bin("bsr").unwrap();
    let output = command.current_dir(folder.path()).args(["trace", "--compare", "one.json", "other.json"]).assert();
    let note = String::from_utf8(output.success().get_output().stderr.clone()).unwrap();
    assert!(note.contains("of different problems, 256 x 128 x 320, topk:5"), "{note}");

    for (a, b, why) in [
        ("one.json", "bm = 64, bn = 64, bk = 64, op = sdd", "op = sdd"),
        ("bm = 64, bn = 64, bk = 32", "bm = 64, bn = 64", "B:1"),
        ("bm = 64, bn = 64, bk = 32", "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32", "mma = wgmma"),
    ] {
        let mut command = Command::cargo_bin("bsr").unwrap();
        let output = command.current_dir(folder.path()).args(["trace", "--device", "sim", "--compare", a, b]).assert();
        let said = String::from_utf8(output.code(2).get_output().stderr.clone()).unwrap();
        assert!(said.contains(why) && said.contains("help: "), "{a}, {b}: {said}");
    }
}

#[test]
fn a_trace_says_what_it_is_of_and_is_drawn_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let problem = ["--m", "128", "--n", "64", "--device", "sim", "--seed", "3"];
    let said =
        traced(&folder, &[&["bm = 64, bn = 64, bk = 32", "-o", "a.json", "--svg", "a.svg"][..], &problem].concat());
    assert!(said.contains("picture") && said.contains("each cycle is shown as 1 us"), "{said}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let trace: Value = serde_json::from_str(&read("a.json")).unwrap();
    let of = &trace["otherData"]["of"];
    assert_eq!(
        (&of["workload"]["m"], &of["workload"]["seed"], &of["device"]["kind"]),
        (&128.into(), &3.into(), &"sim".into())
    );
    let said = traced(&folder, &["a.json", "--svg", "b.svg"]);
    assert!(said.contains("no time of a GPU") && said.contains("consumer 1"), "{said}");
    let picture = read("b.svg");
    assert_eq!(picture, read("a.svg"));
    assert!(picture.starts_with("<svg xmlns=") && picture.contains("<title>wait for a full stage: "), "{picture}");
    let mut command = Command::cargo_bin("bsr").unwrap();
    let output = command.current_dir(folder.path()).args(["trace", "a.json", "-o", "c.json"]).assert().code(2);
    let said = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(said.contains("is read as a trace") && said.contains("--svg"), "{said}");
}

/// Whatever a file says, it is refused in words, or shown.
#[test]
fn a_trace_that_was_altered_is_told() {
    let folder = tempfile::tempdir().unwrap();
    traced(&folder, &["bm = 64, bn = 64, bk = 32", "--m", "128", "--n", "64", "--device", "sim", "-o", "a.json"]);
    let text = std::fs::read_to_string(folder.path().join("a.json")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let alter = |change: &dyn Fn(&mut Value)| {
        let mut altered = trace.clone();
        change(&mut altered);
        std::fs::write(folder.path().join("b.json"), altered.to_string()).unwrap();
        let mut command = Command::cargo_bin("bsr").unwrap();
        let args = ["trace", "--compare", "b.json", "bm = 64, bn = 64, bk = 32, stages = 2", "--device", "sim"];
        let output = command.current_dir(folder.path()).args(args).assert().code(2).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    let said = alter(&|trace| trace["otherData"]["of"]["workload"]["m"] = u64::MAX.into());
    assert!(said.contains("a size of 18446744073709551615") && said.contains("help: "), "{said}");
    let said = alter(&|trace| trace["traceEvents"][0]["ph"] = "X".into());
    assert!(said.contains("b.json") && said.contains("no trace of a kernel's roles"), "{said}");
    let said =
        alter(&|trace| trace["otherData"]["of"]["workload"]["source"] = serde_json::json!({ "pattern": "nonsense" }));
    assert!(said.contains("nonsense"), "{said}");
}

#[test]
fn a_kernel_of_lists_is_traced() {
    let trace = timeline("bm = 64, bn = 64, bk = 32, batch = on", &["--m", "128", "--n", "64"]);
    // The product and the same once more: two tiles for each consumer's rows.
    let tiles = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "tile");
    let tiles: Vec<&Value> = tiles.filter(|tile| tile["name"].as_str().unwrap().contains("rows 0..64")).collect();
    assert!(tiles.len() >= 2, "{tiles:?}");
}
