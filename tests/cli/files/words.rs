//! What is said of files and to whom.

use std::fs;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;

use super::Folder;
use crate::SMALL;

#[test]
fn names_are_escaped_where_they_are_printed() {
    let folder = Folder::new();
    let name = "a\u{1b}[31m\u{7}\u{202e}b";
    let hidden = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.chars().any(|c| matches!(c, '\u{1b}' | '\u{7}' | '\u{202e}'))
    };
    let matrix = folder.matrix("m.npz");
    fs::copy(matrix, folder.path(&format!("{name}.npz"))).unwrap();
    let path = format!("{name}.npz");
    for (args, code) in [
        (vec!["convert", path.as_str(), "--block", "64x32"], 0),
        (vec!["convert", path.as_str(), "--block", "64x32", "--tensor", name], 2),
        (vec!["advise", path.as_str(), "--predict"], 0),
        (vec!["run", SMALL, "--device", "sim", "--matrix", path.as_str()], 0),
        (vec!["export", name], 2),
        (vec!["plan", name], 2),
        (vec!["space", name], 2),
        (vec![name], 2),
        (vec!["run", SMALL, "--pattern", name], 2),
        (vec!["report", path.as_str()], 2),
    ] {
        let output = folder.bsr(&args).code(code).get_output().clone();
        assert!(!hidden(&output.stdout) && !hidden(&output.stderr), "{args:?}");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // Of an argument that is none, colours are left out.
        assert!(said.contains("\\u{202e}b"), "{args:?}: {said}");
        assert!(args.len() == 1 || args[1] == SMALL || said.contains("\\u{1b}[31m\\u{7}"), "{args:?}: {said}");
    }
}

#[test]
fn ten_errors_are_shown_and_the_others_counted() {
    let folder = Folder::new();
    for text in [format!("bm = 64{}", ",".repeat(2_000)), "x = 1, ".repeat(500)] {
        let output = folder.bsr(&["plan", &text]).code(2).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.matches("--> spec:").count(), 10);
        assert!(said.contains("more errors") && said.len() < 200_000, "{} bytes", said.len());
    }
}

#[test]
fn what_is_left_out_is_told() {
    let folder = Folder::new();
    folder.database("a.db");
    let told = || contains("left out  1 of 1 products: their times are a test's, not measured on a GPU\n");
    folder.bsr(&["export", "a.db", "--tuned", "t.jsonl"]).success().stdout(told());
    folder.bsr(&["loss", "a.db"]).success().stdout(told().and(contains("tuned     unknown: of 0 problems")));
}

#[test]
fn tables_are_as_wide_as_the_terminal() {
    let folder = Folder::new();
    folder.database("a.db");
    let lines = |width: &str| {
        let mut command = Command::cargo_bin("bsr").unwrap();
        let output =
            command.args(["loss", "a.db"]).env("COLUMNS", width).current_dir(folder.0.path()).output().unwrap();
        let mut command = Command::cargo_bin("bsr").unwrap();
        let report =
            command.args(["report", "a.db"]).env("COLUMNS", width).current_dir(folder.0.path()).output().unwrap();
        let text = [output.stdout, report.stdout].concat();
        String::from_utf8(text).unwrap().lines().filter(|line| line.starts_with('|')).map(str::len).max().unwrap()
    };
    assert!(lines("60") <= 60, "{}", lines("60"));
}

#[test]
fn shells_are_told_what_to_complete() {
    let folder = Folder::new();
    for (shell, words) in [("bash", "_bsr"), ("zsh", "#compdef bsr"), ("fish", "complete -c bsr")] {
        folder.bsr(&["completions", shell]).success().stdout(contains(words).and(contains("watchdog")));
    }
}
