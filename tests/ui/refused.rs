//! The compile error of everything that the attribute does not accept: `fail/NAME.rs` is a program, and `fail/NAME.stderr`
//! what the compiler says of it, which `BSR_BLESS=1` writes. What it accepts is in `tests/library/accepted`.
//!
//! All of them are programs of one crate: what they depend on is built once, and is that of the README's program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::outside::{self, cargo, root, text};

/// The folder of the programs.
fn folder() -> PathBuf {
    root().join("tests/ui/fail")
}

/// The names of the folder's files of a kind.
fn names(extension: &str) -> Vec<String> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let of_kind = files.filter(|file| file.extension().is_some_and(|found| found == extension));
    let mut names: Vec<_> = of_kind.map(|file| text(file.file_stem().unwrap().as_encoded_bytes())).collect();
    names.sort();
    names
}

/// What the compiler says of every program, by its name.
fn messages(names: &[String]) -> BTreeMap<String, String> {
    let mut manifest = String::from("\n[lints.rust]\ndead_code = \"allow\"\n");
    for name in names {
        let path = folder().join(name).with_extension("rs");
        write!(manifest, "\n[[bin]]\nname = {name:?}\npath = {path:?}\n").unwrap();
    }
    let outside = outside::write("refused", "bsr", &manifest);
    let built = cargo(&outside, &["build", "--bins", "--keep-going", "--quiet", "--message-format=json"]);
    let mut found = BTreeMap::new();
    for line in text(&built.stdout).lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        // A note on the failure says where errors are explained.
        let message = &line["message"];
        if line["target"]["kind"][0] != "bin" || message.is_null() || message["level"] == "failure-note" {
            continue;
        }
        let said = normal(message["rendered"].as_str().unwrap());
        if !said.starts_with("error: aborting due to ") {
            let all: &mut String = found.entry(line["target"]["name"].as_str().unwrap().to_owned()).or_default();
            all.push_str(if all.is_empty() { "" } else { "\n" });
            writeln!(all, "{}", said.trim_end()).unwrap();
        }
    }
    assert!(!found.is_empty(), "{}", text(&built.stderr));
    found
}

/// A message whose paths are those of the repository, without the lines of files that are no program of a test, without the
/// number of types that are not listed, and without the file of a long type's name.
fn normal(message: &str) -> String {
    let (root, mut elsewhere) = (format!("{}/", root().display()), false);
    let is_of_run = |line: &&str| line.contains("the full name for the type has been written to ");
    let lines = message.lines().filter(|line| !is_of_run(line)).map(|line| {
        let place = line.trim_start();
        if place.starts_with("--> ") || place.starts_with("::: ") {
            let line = line.replace(&format!("{root}tests/ui/"), "");
            elsewhere = line.contains(&root);
            let shown = line.replace(&root, "$WORKSPACE/");
            return if elsewhere { without_position(&shown) } else { shown };
        }
        if place.starts_with("and ") && place.ends_with(" others") {
            return format!("{}and $N others", &line[..line.len() - place.len()]);
        }
        elsewhere &= line.is_empty() || place.starts_with(|first: char| first.is_ascii_digit() || "|.".contains(first));
        if elsewhere { without_number(line) } else { line.trim_end().to_owned() }
    });
    unindented(&lines.collect::<Vec<_>>())
}

/// Lines without the room for numbers of lines that are gone.
fn unindented(lines: &[String]) -> String {
    let indent = |line: &String| line.len() - line.trim_start_matches(' ').len();
    let of_code = lines.iter().filter(|line| line.starts_with(|first: char| first == ' ' || first.is_ascii_digit()));
    let room = of_code.map(indent).min().unwrap_or(0);
    lines.iter().map(|line| format!("{}\n", &line[room.min(indent(line))..])).collect()
}

/// A place without its line and column.
fn without_position(place: &str) -> String {
    place.trim_end_matches(|last: char| last.is_ascii_digit() || last == ':').to_owned()
}

/// A line of code without its number.
fn without_number(line: &str) -> String {
    let end = line.len() - line.trim_start_matches([' ', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']).len();
    format!("{}{}", " ".repeat(end), &line[end..]).trim_end().to_owned()
}

#[test]
fn programs_that_the_attribute_refuses() {
    let names = names("rs");
    let found = messages(&names);
    if std::env::var_os("BSR_BLESS").is_some() {
        for (name, said) in &found {
            fs::write(folder().join(name).with_extension("stderr"), said).unwrap();
        }
    }
    assert_eq!(names, self::names("stderr"), "BSR_BLESS=1 writes the messages of new programs");
    let written = |name: &String| fs::read_to_string(folder().join(Path::new(name)).with_extension("stderr")).unwrap();
    let other: Vec<_> = names.iter().filter(|&name| found.get(name) != Some(&written(name))).collect();
    for &name in &other {
        let said = found.get(name).map_or("nothing: it is compiled\n", String::as_str);
        eprintln!("{name}.rs: the compiler says\n{said}\nand {name}.stderr says\n{}", written(name));
    }
    assert!(other.is_empty(), "BSR_BLESS=1 writes the messages of {other:?}");
}
