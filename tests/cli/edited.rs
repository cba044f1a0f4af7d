//! Edited PTX: what is emitted, changed by hand, then checked, run, traced and timed by one option.

use std::path::Path;

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use predicates::str::contains;

use crate::SMALL;

const PROBLEM: [&str; 6] = ["--m", "128", "--n", "64", "--k", "96"];

fn bsr(args: &[&str]) -> Assert {
    crate::bsr(args).assert()
}

/// A kernel in a file, its text as `edit` leaves it.
fn written(folder: &Path, spec: &str, edit: impl Fn(&str) -> String) -> String {
    let file = folder.join("k.ptx");
    let file = file.to_str().unwrap();
    bsr(&["emit", spec, "-o", file, "--force"]).success();
    let text = std::fs::read_to_string(file).unwrap();
    let edited = edit(&text);
    assert_ne!(edited, text);
    std::fs::write(file, edited).unwrap();
    file.to_owned()
}

/// `bsr COMMAND SPEC --ptx FILE` on a small problem of the simulator.
fn simulated(command: &str, spec: &str, file: &str) -> Assert {
    bsr(&[&[command, spec, "--ptx", file, "--device", "sim"][..], &PROBLEM].concat())
}

#[test]
fn the_text_of_the_file_is_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let right = written(folder.path(), SMALL, |text| text.replacen("\n{\n", "\n{\n    // edited\n", 1));
    simulated("run", SMALL, &right)
        .success()
        .stdout(contains(format!(" of {right}\n")).and(contains("findings  none")));
    let wrong = written(folder.path(), SMALL, |text| text.replacen("%p_add, 1, 1,", "%p_add, -1, 1,", 1));
    simulated("run", SMALL, &wrong).code(1).stderr(contains("wrong result"));
    bsr(&[&["check", SMALL, "--ptx", &wrong, "--schedules", "1"][..], &PROBLEM].concat()).code(1);

    let attention = "op = attention, bm = 64, bn = 32, bk = 64";
    let wrong = written(folder.path(), attention, |text| text.replacen("ex2.approx.ftz.f32", "neg.f32", 1));
    let small = ["--m", "70", "--n", "70", "--heads", "1"];
    bsr(&[&["run", attention, "--ptx", &wrong, "--device", "sim"][..], &small].concat()).code(1);
}

#[test]
fn a_text_with_probes_is_written_edited_and_traced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("probed.ptx");
    let file = file.to_str().unwrap();
    let trace = ["trace", SMALL, "--device", "sim"];
    bsr(&[&trace[..], &["--write-ptx", file], &PROBLEM].concat()).success();
    simulated("trace", SMALL, file).success().stdout(contains(format!(" of {file}, beside")));
    // It records, so it is launched in another way than the kernel without probes.
    simulated("run", SMALL, file).code(2).stderr(contains("other parameters").and(contains("--write-ptx FILE")));
    bsr(&[&trace[..], &["--ptx", file, "--write-ptx", file, "--force"]].concat())
        .code(2)
        .stderr(contains("which is read"));
}

#[test]
fn every_command_refuses_the_text_of_another_kernel_before_it_opens_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let other = written(folder.path(), "bm = 64, bn = 128, bk = 32", |text| text.replacen("\n{\n", "\n{\n\n", 1));
    for command in ["run", "bench", "check", "trace", "profile"] {
        let said =
            contains("this is the kernel of `bm = 64, bn = 128, bk = 32`, and SPEC is `bm = 64, bn = 64, bk = 32`");
        bsr(&[command, SMALL, "--ptx", &other])
            .code(2)
            .stderr(said.and(contains("help: `bsr emit \"bm = 64, bn = 64")));
    }
    let two = ["bench", SMALL, "bm = 64, bn = 128, bk = 32", "--ptx", &other];
    bsr(&two).code(2).stderr(contains("--ptx is the text of one kernel, and there are 2 SPECs"));
}
