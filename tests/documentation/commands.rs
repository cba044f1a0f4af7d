//! Command lines of the README and the book are run, in the order of their page, in a folder of their own.
//!
//! A block of `sh` must succeed. One of `sh,gpu` also may end with 3, no device, and its other lines are then left; on a
//! machine with a GPU it is left out, since it measures for minutes. One of `sh,files` is given the matrix files that
//! [`files`] writes. A block of TOML is a spec or a space, and is read.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use safetensors::tensor::{Dtype, TensorView};

use crate::pages::{Block, Page, book, root};

/// What ends a command that needs a device where there is none.
const NO_DEVICE: i32 = 3;

/// Runs a line with the command of this build on the PATH.
fn shell(line: &str, folder: &Path) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_bsr")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    Command::new("sh").args(["-c", line]).current_dir(folder).env("PATH", path).output().unwrap()
}

/// The commands of a block: lines without what is for cargo or the machine's set-up.
fn lines(block: &Block) -> Vec<String> {
    let is_command = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let of_bsr = |line: &str| line.replacen("cargo run --release -- ", "bsr ", 1);
    block.text.lines().filter(is_command).map(of_bsr).filter(|line| line.starts_with("bsr ")).collect()
}

/// The files that pages about real data name.
fn files(folder: &Path) {
    let value = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0 - 0.5;
    let values: Vec<u8> = (0..512 * 512).flat_map(|i| value(i).to_le_bytes()).collect();
    let weight = TensorView::new(Dtype::F32, vec![512, 512], &values).unwrap();
    let bytes = safetensors::serialize([("mlp.up.weight", weight)], None).unwrap();
    fs::write(folder.join("layer.safetensors"), bytes).unwrap();
}

fn has_gpu() -> bool {
    bsr::gpu::Device::open(0).is_ok()
}

/// What is wrong with the commands of a page.
fn failures(page: &Page) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for block in page.blocks().iter().filter(|block| block.language == "sh") {
        let marked = |mark: &str| block.marks.iter().any(|other| other == mark);
        if marked("files") {
            files(folder.path());
        }
        if marked("gpu") && has_gpu() {
            eprintln!("SKIPPED: measures on the GPU: {}", block.text);
            continue;
        }
        for line in lines(block) {
            let output = shell(&line, folder.path());
            let code = output.status.code();
            if marked("gpu") && code == Some(NO_DEVICE) {
                break;
            }
            if code != Some(0) {
                let told = String::from_utf8_lossy(&output.stderr).into_owned();
                failures.push(format!("{}: `{line}` ends with {code:?}: {told}", page.path.display()));
            }
        }
    }
    failures
}

#[test]
fn every_command_line_runs() {
    use rayon::prelude::*;
    let mut pages = book();
    pages.push(Page::read(root().join("README.md")));
    let failures: Vec<String> = pages.par_iter().flat_map_iter(failures).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Commands stand in blocks of `sh`, where the test above finds them.
#[test]
fn no_command_stands_in_another_block() {
    for page in book().into_iter().chain([Page::read(root().join("README.md"))]) {
        for block in page.blocks().iter().filter(|block| !matches!(&*block.language, "sh" | "text" | "toml")) {
            let hidden = block.text.lines().find(|line| line.starts_with("bsr ") || line.starts_with("cargo run"));
            assert_eq!(hidden, None, "{}", page.path.display());
        }
    }
}

#[test]
fn every_file_of_toml_is_read() {
    for page in book() {
        for block in page.blocks().iter().filter(|block| block.language == "toml") {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("page.toml"), &block.text).unwrap();
            let line = match block.text.contains("[[part]]") {
                true => "bsr space page.toml --kernel 'bm = 512, bk = 112'",
                false if block.text.contains("[dependencies]") || block.text.contains("[profile.") => continue,
                false => "bsr plan page.toml",
            };
            let output = shell(line, folder.path());
            assert!(output.status.success(), "{}: {}", block.text, String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// The README shows lines of a kernel as it is emitted, in their order.
#[test]
fn lines_of_the_readme_are_emitted() {
    let readme = Page::read(root().join("README.md"));
    let shown = readme.blocks().into_iter().find(|block| block.language == "ptx").unwrap();
    let spec: bsr::KernelSpec = "bm = 512, bn = 128, bk = 112".parse().unwrap();
    let ptx = bsr::Plan::new(&spec).unwrap().ptx();
    let mut emitted = ptx.text().lines();
    for line in shown.text.lines().filter(|line| line.trim() != "...") {
        assert!(emitted.any(|other| other == line), "not emitted, or not in this order: {line}");
    }
}
