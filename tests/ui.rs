//! The compile error of everything that the attribute does not accept. What it accepts, `ui/pass`, are tests of their
//! own: without them, trybuild checks the crates that the cases need, and does not have to build them.
//!
//! After a change of wording, `.ci/bless` rewrites the golden files.
#![allow(clippy::unwrap_used)]

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
}

/// Each file of `ui/pass` is a test that `Cargo.toml` names.
#[test]
fn every_accepted_case_is_a_test() {
    let manifest = include_str!("../Cargo.toml");
    let files: Vec<_> = std::fs::read_dir("tests/ui/pass").unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        assert!(manifest.contains(&format!("path = \"{}\"\n", file.display())), "no [[test]] for {}", file.display());
    }
}
