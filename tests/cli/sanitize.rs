//! `bsr sanitize`: kernels that Triton has compiled run without a finding, and defects that are planted in them are found.

use std::fs;
use std::path::{Path, PathBuf};

use super::bsr;

/// The texts, launches and defects.
fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/files/sanitize")
}

/// A folder with a launch, and with what its buffers must hold afterwards: what the text leaves, under one schedule.
fn prepared(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let launch = fs::read_to_string(files().join(format!("{name}.toml"))).unwrap();
    let path = folder.path().join("launch.toml");
    let without: String =
        launch.lines().filter(|line| !line.contains("golden/")).map(|line| format!("{line}\n")).collect();
    fs::write(&path, without).unwrap();
    let golden = folder.path().join("golden");
    let text = files().join(format!("{name}.ptx"));
    let args = ["sanitize", text.to_str().unwrap(), "--launch", path.to_str().unwrap(), "--schedules", "1"];
    bsr(&args).args(["--results", golden.to_str().unwrap()]).assert().success();
    fs::write(&path, launch).unwrap();
    (folder, path)
}

/// The report on a text, as JSON.
fn report(text: &Path, launch: &Path, schedules: u32) -> serde_json::Value {
    let schedules = schedules.to_string();
    let args = ["sanitize", text.to_str().unwrap(), "--launch", launch.to_str().unwrap(), "--schedules", &schedules];
    let assert = bsr(&args).args(["--format", "json", "--max-steps", "200000"]).assert();
    let out = assert.get_output().stdout.clone();
    serde_json::from_slice(&out).unwrap_or(serde_json::Value::Null)
}

/// The classes of the findings for which the command fails.
fn errors(report: &serde_json::Value) -> Vec<String> {
    let all = report["findings"].as_array().cloned().unwrap_or_default();
    let counts = all.iter().filter(|f| f["level"] == "error" && f["allowed"].is_null());
    counts.map(|f| f["class"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn right_kernels_have_no_finding() {
    for name in RIGHT {
        let (_folder, launch) = prepared(name);
        let report = report(&files().join(format!("{name}.ptx")), &launch, 3);
        assert!(errors(&report).is_empty(), "{name}: {report:#}");
        assert!(report["warp_instructions"].as_u64().unwrap() > 1000, "{name}");
    }
}

/// Texts without a defect.
const RIGHT: [&str; 8] =
    ["vector_add", "softmax", "matmul", "matmul_tma", "copy_device_tma", "attention_tma", "grouped", "sum_rows"];

#[test]
fn results_are_those_of_the_mathematics() {
    let (folder, _) = prepared("matmul_tma");
    let load = |name: &str| {
        let bytes = fs::read(folder.path().join(format!("golden/{name}.npy"))).unwrap();
        let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let half = |pair: &[u8]| half::f16::from_le_bytes([pair[0], pair[1]]).to_f64();
        bytes[header..].chunks(2).map(half).collect::<Vec<f64>>()
    };
    let ([a, b, c], [m, n, k]) = (["a", "b", "c"].map(load), [128, 64, 320]);
    assert_eq!([a.len(), b.len(), c.len()], [m * k, n * k, m * n]);
    for (at, found) in c.iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let want: f64 = (0..k).map(|i| a[row * k + i] * b[column * k + i]).sum();
        // C is f16, of 11 bits.
        let most = want.abs() / 2048.0 + 1e-4 * (k as f64).sqrt();
        assert!((want - found).abs() <= most, "{row}, {column}: {found} and not {want}");
    }
}

/// One defect: the text, its kind, which occurrence of what is replaced, and by what.
struct Defect<'t> {
    text: &'t str,
    kind: &'t str,
    occurrence: usize,
    find: &'t str,
    put: &'t str,
}

fn defect(line: &str) -> Defect<'_> {
    let parts: Vec<&str> = line.split(" | ").collect();
    let [text, kind, occurrence, find, put] = parts[..] else { panic!("{line}") };
    Defect { text, kind, occurrence: occurrence.parse().unwrap(), find, put: put.trim() }
}

impl Defect<'_> {
    fn plant(&self, text: &str) -> String {
        let (at, _) = text.match_indices(self.find).nth(self.occurrence - 1).unwrap_or_else(|| panic!("{}", self.find));
        format!("{}{}{}", &text[..at], self.put, &text[at + self.find.len()..])
    }
}

#[test]
fn planted_defects_are_found() {
    let table = fs::read_to_string(files().join("defects.txt")).unwrap();
    let all: Vec<Defect<'_>> = table.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).map(defect).collect();
    let mut kinds: Vec<&str> = all.iter().map(|defect| defect.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert!(all.len() >= 60 && kinds.len() >= 12, "{} defects of {} kinds", all.len(), kinds.len());
    let mut missed = Vec::new();
    for name in RIGHT {
        let mut of_text = all.iter().filter(|defect| defect.text == name).peekable();
        if of_text.peek().is_none() {
            continue;
        }
        let (folder, launch) = prepared(name);
        let text = fs::read_to_string(files().join(format!("{name}.ptx"))).unwrap();
        for defect in of_text {
            let path = folder.path().join("planted.ptx");
            fs::write(&path, defect.plant(&text)).unwrap();
            if errors(&report(&path, &launch, 4)).is_empty() {
                missed.push(format!("{}: {} {}: {}", defect.text, defect.kind, defect.occurrence, defect.find));
            }
        }
    }
    assert!(missed.len() * 20 <= all.len(), "{} of {} are missed: {missed:#?}", missed.len(), all.len());
}

#[test]
fn findings_name_source_lines_and_may_be_allowed() {
    let launch = files().join("sum_rows_racy.toml");
    let text = files().join("sum_rows_racy.ptx");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("launch.toml");
    let any = fs::read_to_string(launch).unwrap().replace("golden/out.npy", "any");
    fs::write(&path, any).unwrap();
    let args = ["sanitize", text.to_str().unwrap(), "--launch", path.to_str().unwrap(), "--format", "sarif"];
    let assert = bsr(&args).assert().code(1);
    let sarif: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let race = results.iter().find(|result| result["ruleId"] == "race").unwrap();
    let place = &race["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "kernels.py");
    // The exchange of the count, and its load: lines of `sum_rows` in kernels.py.
    let source = fs::read_to_string(files().join("kernels.py")).unwrap();
    let line = source.lines().nth(place["region"]["startLine"].as_u64().unwrap() as usize - 1).unwrap();
    assert!(line.contains("lock + GROUPS + group"), "{line}");
}

#[test]
fn a_launch_file_is_written_from_a_text() {
    let text = files().join("softmax.ptx");
    let assert = bsr(&["sanitize", "--launch-from", text.to_str().unwrap()]).assert().success();
    let out = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    for part in ["entry = \"softmax\"", "block = [128, 1, 1]  # .reqntid", "after = \"unchanged\"", "value = 0\n"] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
    // Two addresses that are used, three numbers, two addresses that are not.
    assert_eq!((out.matches("[buffers.").count(), out.matches("[[params]]").count()), (2, 7));
}

#[test]
fn what_cannot_run_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (text, launch) = (folder.path().join("k.ptx"), folder.path().join("launch.toml"));
    fs::write(&launch, "grid = 1\nblock = 32\n").unwrap();
    let head = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<3>;\n";
    for (body, reason) in [
        ("tex.1d.v4.f32.s32 {%r0, %r0, %r0, %r0}, [%r1, {%r2}];", "k.ptx:6:1: the instruction `tex` is not modelled"),
        ("call foo;", "the function `foo` is not declared"),
    ] {
        fs::write(&text, format!("{head}{body}\nret;\n}}\n")).unwrap();
        bsr(&["sanitize", text.to_str().unwrap(), "--launch", launch.to_str().unwrap()])
            .assert()
            .code(2)
            .stderr(predicates::str::contains(reason));
    }
}
