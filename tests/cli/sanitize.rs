//! `bsr sanitize`: kernels that Triton has compiled run without a finding, and defects that are planted in them are found.

use std::fs;
use std::path::{Path, PathBuf};

use predicates::prelude::PredicateBooleanExt;

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
const RIGHT: [&str; 11] = [
    "vector_add",
    "softmax",
    "layer_norm",
    "layer_norm_gradient",
    "matmul",
    "matmul_tma",
    "grouped_gemm",
    "copy_device_tma",
    "attention_tma",
    "grouped",
    "sum_rows",
];

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
            // Most are found in the first schedule, and the first of four is that of one.
            let is_found = |schedules: u32| !errors(&report(&path, &launch, schedules)).is_empty();
            if !is_found(1) && !is_found(4) {
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

/// Loads and stores of one place of the source, of a loop that was unrolled, are one finding, which a line of any of them accepts.
#[test]
fn instructions_of_one_place_of_the_source_are_one_finding() {
    let folder = tempfile::tempdir().unwrap();
    let (text, launch) = (folder.path().join("k.ptx"), folder.path().join("launch.toml"));
    let stores = |value| format!("st.shared.u32 [%r1], {value};\nst.shared.b32 [%r1+256], {value};\n");
    let (before, after) = (stores("%r0"), stores("%r2"));
    let body = format!(
        ".loc 1 5 3\n{before}bar.sync 0;\n.loc 1 7 5\nld.shared.u32 %r3, [%r2];\nld.shared.b32 %r4, [%r2+256];\n.loc 1 9 3\n{after}"
    );
    let ptx = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {{\n.reg .b32 %r<6>;\n.shared .b32 sm[128];\nmov.u32 %r0, %tid.x;\n\
         mov.u32 %r1, sm;\nxor.b32 %r2, %r0, 32;\nmad.lo.u32 %r2, %r2, 4, %r1;\nmad.lo.u32 %r1, %r0, 4, %r1;\n{body}\nret;\n}}\n.file 1 \"k.cu\"\n"
    );
    fs::write(&text, &ptx).unwrap();
    fs::write(&launch, "grid = 1\nblock = 64\n").unwrap();
    let races = |ptx: &str| {
        fs::write(&text, ptx).unwrap();
        let report = report(&text, &launch, 2);
        let all = report["findings"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|finding| finding["class"] == "race").collect::<Vec<_>>()
    };
    let found = races(&ptx);
    // Of the reader that is late, and of the writer that is early: each names the second load and the second store, too.
    assert!(found.len() == 2 && found.iter().all(|race| race["also"].as_array().unwrap().len() == 2), "{found:#?}");
    assert_eq!(races(&ptx.replace("ld.shared.b32 %r4", ".loc 1 8 5\nld.shared.b32 %r4")).len(), 4);
    fs::write(&text, &ptx).unwrap();
    let line = format!("{}=it is meant", found[0]["also"][0]);
    bsr(&["sanitize", text.to_str().unwrap(), "--launch", launch.to_str().unwrap(), "--allow", &line]).assert().stdout(
        predicates::str::contains("allowed[race] (it is meant)")
            .and(predicates::str::contains("2 more instructions are from")),
    );
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

/// A structure with an address and numbers, a buffer with an address at a place, and PTX within a fat binary.
#[test]
fn structures_have_fields_and_fat_binaries_hold_ptx() {
    let folder = tempfile::tempdir().unwrap();
    let (file, launch) = (folder.path().join("k.fatbin"), folder.path().join("launch.toml"));
    let text = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .align 8 .b8 p[24]) {\n.reg .b32 %r<4>;\n\
                .reg .b64 %rd<4>;\nld.param.u64 %rd0, [p];\nld.param.u32 %r0, [p+8];\nld.param.u64 %rd1, [p+16];\n\
                ld.global.u64 %rd2, [%rd0+8];\nld.global.u32 %r1, [%rd2];\nadd.u32 %r1, %r1, %r0;\nst.global.u32 [%rd1], %r1;\n\
                ret;\n}\n";
    let mut entry = vec![0; 64];
    (entry[0], entry[4]) = (1, 64);
    entry[8..16].copy_from_slice(&(text.len() as u64).to_le_bytes());
    entry.extend(text.bytes());
    let head = [&0xba55_ed50_u32.to_le_bytes()[..], &[1, 0, 16, 0], &(entry.len() as u64).to_le_bytes()].concat();
    fs::write(&file, [head, entry].concat()).unwrap();
    let right = "grid = 1\nblock = 1\n[buffers.table]\ntype = \"u64\"\nshape = [2]\nvalues = 0\n\
                 fields = [{ at = 8, buffer = \"x\", offset = 4 }]\n\
                 [buffers.x]\ntype = \"u32\"\nshape = [2]\nvalues = \"index\"\n[buffers.out]\ntype = \"u32\"\nshape = [1]\nvalues = 0\n\
                 [[params]]\nfields = [{ at = 0, buffer = \"table\" }, { at = 8, value = 41 }, { at = 16, buffer = \"out\" }]\n";
    let run = |toml: &str| {
        fs::write(&launch, toml).unwrap();
        let args = ["sanitize", file.to_str().unwrap(), "--launch", launch.to_str().unwrap(), "--results"];
        bsr(&args).arg(folder.path()).assert()
    };
    run(right).success();
    assert!(fs::read(folder.path().join("out.npy")).unwrap().ends_with(&42u32.to_le_bytes()));
    for (find, put, reason) in [
        ("{ at = 8, value", "{ value", "a field has a place"),
        ("at = 16, buffer", "at = 20, buffer", "at 20: 20 + 8 bytes = 28, and it has 24"),
        (
            "{ at = 8, buffer = \"x\"",
            "{ at = 12, buffer = \"x\"",
            "buffer `table`: 8 bytes at 12 end at 20, and it has 16",
        ),
        ("\"table\" }", "\"tabel\" }", "the field at 0: there is no buffer `tabel`"),
    ] {
        assert!(right.contains(find), "{find}");
        run(&right.replace(find, put)).code(2).stderr(predicates::str::contains(reason));
    }
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
