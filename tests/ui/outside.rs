//! Crates outside the workspace, written anew in the folder of a test: what a user of the library has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The profile of such a crate: that of the workspace for the crates that both build. The library's own are compiled for
/// it alone, without optimisation.
const PROFILE: &str = r#"
[profile.dev]
debug = "line-tables-only"
lto = "off"

[profile.dev.package.tera]
opt-level = 1

[profile.dev.package.blake3]
opt-level = 2

[profile.dev.package.chacha20]
opt-level = 2

[profile.dev.package.half]
opt-level = 2

[profile.dev.package.rand]
opt-level = 2
"#;

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The features of the dependency that the README shows: what follows its path.
fn features() -> String {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let line = readme.lines().find(|line| line.starts_with("bsr = {")).expect("the README shows a dependency");
    let rest = line.split_once("path = \"").unwrap().1;
    rest.split_once("\", ").unwrap().1.trim_end_matches('}').trim().to_owned()
}

/// A crate that depends on the library by another name, as the README says; `more` ends its manifest.
pub(crate) fn write(test: &str, library: &str, more: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(folder.join("src/bin")).unwrap();
    let (root, features) = (root(), features());
    let manifest = format!(
        r#"[package]
name = "outside"
version = "0.1.0"
edition = "2024"

[workspace]

[dependencies]
{library} = {{ package = "bsr-gemm", path = {root:?}, {features} }}
{PROFILE}{more}"#
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    folder
}

pub(crate) fn cargo(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).arg("--offline").current_dir(folder);
    // Next to the workspace's own builds, which hold most of what the crate depends on.
    command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap());
    // What cargo tells the integration test of one package is not for another one.
    command.env_remove("CARGO_TARGET_TMPDIR").env_remove("CARGO_MANIFEST_DIR");
    // With it, as under `.ci/timed`, cargo would build crates anew in the place of those that the workspace uses.
    command.env_remove("RUSTC_BOOTSTRAP");
    // The messages are those of the compiler.
    command.env_remove("RUSTC_WRAPPER");
    command.output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
