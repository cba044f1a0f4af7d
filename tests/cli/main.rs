//! The `bsr` command as its users meet it. One executable holds these tests, because each one links the whole library.
//!
//! After a change of a plan or of a wording, `cargo insta review` or `INSTA_UPDATE=always cargo test --test cli`
//! rewrites the snapshots.
#![allow(clippy::unwrap_used)]

mod advise;
mod answers;
mod captures;
mod check;
mod convert;
mod edited;
#[cfg(target_os = "linux")]
mod files;
mod operations;
mod report;
mod reports;
mod sanitize;
mod sanitize_classes;
mod sweep;
mod trace;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use bsr::{KernelSpec, Plan};

const FLAGSHIP: &str = "bm = 512, bn = 128, bk = 112";
/// A kernel that is simulated in no time.
const SMALL: &str = "bm = 64, bn = 64, bk = 32";

/// The command in an environment without a ptxas, whatever this machine has.
fn bsr(args: &[&str]) -> Command {
    let mut command = Command::cargo_bin("bsr").unwrap();
    command.args(args).env("PTXAS", "/nowhere/ptxas");
    command
}

/// What a command prints that succeeds, without a word on stderr.
fn said(assert: Assert) -> String {
    let assert = assert.success().stderr(predicates::str::is_empty());
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

/// A matrix of the runtime's tests.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("runtime/tests/data").join(name)
}

fn plan(text: &str) -> Plan {
    Plan::new(&text.parse::<KernelSpec>().unwrap()).unwrap()
}
