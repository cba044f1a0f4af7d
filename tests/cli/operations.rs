//! The `bsr` command on problems of every operation, and on matrices of files.

use std::fs;

use assert_cmd::assert::Assert;
use bsr::gpu::Device;
use bsr_codegen::spec::Key;
use predicates::prelude::*;
use predicates::str::contains;

fn bsr(args: &[&str]) -> Assert {
    crate::bsr(args).assert()
}

fn stdout(assert: &Assert) -> String {
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

#[test]
fn every_operation_has_a_problem_on_the_simulator() {
    for spec in [
        "bm = 64, bn = 64, bk = 32, op = dds",
        "bm = 512, bn = 128, bk = 112, op = dds",
        "bm = 64, bn = 64, bk = 32, op = sdd",
        "bm = 64, bn = 64, bk = 32, permute = on",
        "bm = 64, bn = 64, bk = 32, transpose = on",
        "bm = 16, bn = 64, bk = 16",
        "bm = 64, bn = 64, bk = 32, batch = on",
        "bm = 64, bn = 64, bk = 64, op = sdd, batch = on",
    ] {
        bsr(&["run", spec, "--device", "sim"]).success().stdout(contains("findings  none"));
    }
}

/// Of an attention whose spec says nothing but what is computed, the cost model chooses the kernel; of another one, nothing.
#[test]
fn a_kernel_of_attention_is_chosen_where_the_spec_leaves_it_open() {
    let run = |spec: &str, problem: &[&str]| {
        stdout(
            &bsr(&[&["run", spec, "--device", "sim"][..], problem].concat())
                .success()
                .stdout(contains("findings  none")),
        )
    };
    let decode = ["--m", "1", "--n", "1500", "--heads", "4", "--key-heads", "1", "--pattern", "random:1"];
    let chosen = run("op = attention, bm = 64, bn = 16, bk = 64", &decode);
    let line = chosen.lines().find(|line| line.starts_with("chosen")).unwrap();
    assert!(line.contains("split") && line.contains("us predicted, and"), "{line}");
    let said = run("op = attention, bm = 64, bn = 16, bk = 64, pack_heads = 1", &decode);
    assert!(!said.contains("chosen"), "{said}");
    let short = run("op = attention, bm = 64, bn = 16, bk = 64", &["--m", "64", "--n", "64", "--heads", "1"]);
    assert!(!short.contains("chosen"), "{short}");
}

/// A check of one problem is of the kernel that `run` takes for it; one of many problems is of the spec's own.
#[test]
fn a_check_of_one_attention_is_of_the_kernel_that_runs() {
    let check = |spec: &str, problem: &[&str]| {
        let args = [&["check", spec, "--schedules", "1"][..], problem].concat();
        stdout(&bsr(&args).success().stdout(contains("passes")))
    };
    let decode = ["--m", "1", "--n", "1500", "--heads", "4", "--key-heads", "1", "--pattern", "random:1"];
    let chosen = check("op = attention, bm = 64, bn = 16, bk = 64", &decode);
    let line = chosen.lines().find(|line| line.starts_with("chosen")).unwrap();
    assert!(line.contains("split") && line.contains("us predicted, and"), "{line}");
    let said = check("op = attention, bm = 64, bn = 16, bk = 64, pack_heads = 1", &decode);
    assert!(!said.contains("chosen"), "{said}");
}

/// Documents are one mask, whose vectors are the keys of each query.
#[test]
fn documents_of_different_lengths_are_one_attention() {
    let score = "score = \"|first_key: Rows<f32>, end_key: Rows<f32>| if j >= first_key { if j < end_key { s * scale } else { -inf } } else \
                 { -inf }\"";
    let spec = format!("op = attention, bm = 64, bn = 16, bk = 64, stages = 2, {score}");
    for (pattern, mask) in
        [("documents:40", "of them partial, documents:40"), ("causal_documents:40", "causal_documents:40")]
    {
        let problem = ["--m", "300", "--heads", "2", "--pattern", pattern, "--device", "sim"];
        bsr(&[&["run", &spec][..], &problem].concat()).success().stdout(contains("findings  none").and(contains(mask)));
    }
    bsr(&["run", &spec, "--pattern", "documents:0"]).failure().stderr(contains("documents without rows"));
}

/// The largest difference is at a place of C, not of a list of stored blocks.
#[test]
fn the_worst_element_of_a_sparse_c_is_named_by_its_place_in_c() {
    let spec = "bm = 64, bn = 64, bk = 64, op = sdd";
    let problem = ["--m", "192", "--n", "128", "--k", "64", "--pattern", "random:1"];
    let text = stdout(&bsr(&[&["run", spec, "--device", "sim"][..], &problem].concat()).success());
    let (_, place) = text.split_once("at row ").unwrap();
    let (row, rest) = place.split_once(", column ").unwrap();
    let (column, _) = rest.split_once(':').unwrap();
    assert!(row.parse::<usize>().unwrap() < 192 && column.parse::<usize>().unwrap() < 128, "{text}");
    // As large as it is told: the same problem has the element there.
    assert!(text.contains("all 6 stored blocks"), "{text}");
}

#[test]
fn a_tile_that_is_too_wide_is_refused_for_its_width() {
    bsr(&["plan", "bm = 512, bn = 1024, bk = 112"])
        .code(2)
        .stderr(contains("1024 > 512, the widest planned").and(contains("help: bn = 512")));
}

#[test]
fn help_lists_every_key() {
    let help = stdout(&bsr(&["--help"]).success());
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for key in Key::ALL {
        assert!(words.contains(&format!("{key} {}", key.meaning())), "{key}: {help}");
    }
    // A meaning of two lines stands in its column.
    assert!(help.contains(&format!("\n{:15}(programmatic dependent launch)\n", "")), "{help}");
}

/// A safetensors file of two matrices: 64 x 32 and 64 x 64.
fn two_matrices(folder: &tempfile::TempDir) -> String {
    let header = r#"{"one":{"dtype":"F32","shape":[64,32],"data_offsets":[0,8192]},"two":{"dtype":"F32","shape":[64,64],"data_offsets":[8192,24576]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..24576 / 4).flat_map(|at| ((at % 7) as f32).to_le_bytes()));
    let path = folder.path().join("w.safetensors");
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn commands_that_multiply_take_one_of_several_matrices() {
    let folder = tempfile::tempdir().unwrap();
    let (file, db) = (two_matrices(&folder), folder.path().join("a.db").display().to_string());
    let small = "bm = 64, bn = 64, bk = 32";
    let facts = "bm = 64, bk = 32";
    for command in [
        &["run", small, "--device", "sim"][..],
        &["check", small, "--schedules", "2"],
        &["bench", small],
        &["sweep", "--kernel", facts, "--space", "mma = mma_sync, bn = [16]", "--device", "fake", "--db", &db],
        &["explain", "bm = 64, bk = 32"],
    ] {
        let with = |more: &[&str]| bsr(&[command, &["--n", "64", "--matrix", &file], more].concat());
        with(&[]).code(2).stderr(contains("there are 2 matrices").and(contains("two [64, 64] F32")));
        with(&["--tensor", "three"]).code(2).stderr(contains("three"));
        let right = with(&["--tensor", "two"]);
        match command[0] {
            "bench" if !Device::is_available() => drop(right.code(3)),
            _ => drop(right.success()),
        }
    }
}

#[test]
fn a_check_of_a_problem_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (file, small) = (two_matrices(&folder), "bm = 64, bn = 64, bk = 32");
    bsr(&["check", small, "--matrix", &file, "--tensor", "two", "--n", "40"])
        .success()
        .stdout(contains("problem   C[64, 40] = A[64, 64] * B[64, 40], 2 blocks: clean"))
        .stdout(contains("passes: 4 runs without a finding"));
    bsr(&["check", small, "--m", "200", "--pattern", "topk:1", "--problems", "3"]).code(2);

    // What fails is replayed by what is told.
    let ptx = folder.path().join("k.ptx").display().to_string();
    let emitted = stdout(&bsr(&["emit", small]).success());
    let kept: Vec<&str> = emitted.lines().filter(|line| !line.contains("wgmma.wait_group")).collect();
    fs::write(&ptx, kept.join("\n")).unwrap();
    let problem = ["--m", "128", "--n", "64", "--k", "96", "--pattern", "topk:2", "--schedules", "1", "--seed", "5"];
    let failed = bsr(&[&["check", small, "--ptx", &ptx][..], &problem].concat()).code(1);
    let said = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
    let replay = format!(
        "replay: bsr check \"{small}\" --ptx {ptx} --m 128 --n 64 --k 96 --pattern topk:2 --schedules 1 --seed 5"
    );
    assert!(said.contains(&replay), "{said}");
}

#[test]
fn a_list_of_products_is_checked_as_one_is() {
    bsr(&["check", "bm = 64, bn = 64, bk = 32, batch = on", "--m", "128", "--n", "64", "--schedules", "2"])
        .success()
        .stdout(contains("passes: 2 runs"));
}
