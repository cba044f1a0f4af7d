//! What the command reads and writes: nothing that is read is lost, and nothing that is wrong with a file goes unsaid.

mod inputs;
mod outputs;
mod words;

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use bsr::write::{self, Options};
use bsr::{Bsr, Pattern, f16};

const SPACE: &str = "bm = 64, bk = 32, mma = mma_sync, bn = [16, 32, 48]";

/// A folder to work in.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn bsr(&self, args: &[&str]) -> Assert {
        let mut command = Command::cargo_bin("bsr").unwrap();
        command.args(args).current_dir(self.0.path()).env("PTXAS", "/nowhere/ptxas").assert()
    }

    /// The command in a shell, behind other commands.
    fn shell(&self, before: &str, args: &str) -> Assert {
        let program = assert_cmd::cargo::cargo_bin("bsr");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{before}; exec {} {args}", program.display())]);
        command.current_dir(self.0.path()).assert()
    }

    /// A database with three kernels.
    fn database(&self, name: &str) -> PathBuf {
        let args = ["sweep", "--space", SPACE, "--m", "64", "--n", "64", "--k", "64", "--device", "fake", "--db", name];
        self.bsr(&args).success();
        self.path(name)
    }

    /// A small matrix in blocks.
    fn matrix(&self, name: &str) -> PathBuf {
        let matrix = Bsr::<f16>::generate(Pattern::Random(0.5), 128, 128, (64, 32), 0).unwrap();
        write::save(&matrix, self.path(name), Options::default()).unwrap();
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}
