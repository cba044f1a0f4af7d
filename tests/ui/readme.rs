//! A crate outside the workspace, made of the README's first program and of the features of its dependency: the library
//! under another name. It builds, and runs on the GPU, or on the simulator where there is none that runs the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::outside::{self, cargo, root, text};

/// What the crate calls the library.
const NAME: &str = "sparse";

/// A program that needs a feature which the crate leaves out.
const AUTO: &str = "\
use NAME::prelude::*;

fn choose(device: &Device) -> Auto<Dsd, f16, f16, f16> {
    Auto::new(device)
}

fn main() {}
";

/// The first block of Rust in the README that is a whole program.
fn program() -> String {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut blocks = readme.split("\n```rust").skip(1).map(|rest| {
        let (_, code) = rest.split_once('\n').unwrap();
        code.split("\n```").next().unwrap()
    });
    let program = blocks.find(|code| code.contains("fn main()")).expect("the README has a program");
    assert!(program.contains("bsr_kernel"), "{program}");
    program.to_owned()
}

/// The program, with the library under its other name.
fn renamed(program: &str) -> String {
    program.replace("bsr::", &format!("{NAME}::"))
}

/// The kernel of a program: its attribute and what it stands on.
fn kernel(program: &str) -> (&str, &str) {
    let item = &program[program.find("#[bsr_kernel").unwrap()..];
    let item = &item[..item.find(';').unwrap() + 1];
    let name = item.split_once("fn ").unwrap().1.split(['(', '<']).next().unwrap();
    (item, name)
}

/// Multiplies with the README's kernel on the simulator, and fails with an error of the library.
fn simulated(program: &str) -> String {
    let (item, name) = kernel(program);
    format!(
        r#"use {NAME}::prelude::*;
use {NAME}::reference;

{item}

fn main() -> Result<(), Box<dyn std::error::Error>> {{
    let block = ({name}::SPEC.bm as usize, {name}::SPEC.bk as usize);
    let a = Bsr::generate(Pattern::TopK(1), block.0, 2 * block.1, block, 0)?;
    let b = Dense::normal(2 * block.1, 40, Layout::RowMajor, 0);
    let (c, report) = {name}::simulate((&a, &b), &Options::default())?;
    let error = reference::relative_error(&c.to_f64(), &reference::multiply(&a, &b)?);
    assert!(report.is_clean() && error < 1e-3, "{{error}}");
    println!("{{a:?}} times {{b:?}} is right");
    {name}::simulate((&a, &Dense::normal(7, 40, Layout::RowMajor, 0)), &Options::default())?;
    Ok(())
}}
"#
    )
}

/// The crate, written anew in a folder of a test.
fn write_crate(test: &str, program: &str) -> PathBuf {
    let folder = outside::write(test, NAME, "");
    fs::create_dir_all(folder.join("examples")).unwrap();
    fs::write(folder.join("examples/auto.rs"), AUTO.replace("NAME", NAME)).unwrap();
    fs::write(folder.join("src/bin/readme.rs"), renamed(program)).unwrap();
    fs::write(folder.join("src/bin/simulated.rs"), simulated(program)).unwrap();
    folder
}

/// Packages that a program with the README's dependency builds at most, the library's own five among them.
const MOST_PACKAGES: usize = 60;

#[test]
fn the_readme_makes_a_crate_of_few_packages() {
    let folder = write_crate("outside_tree", &program());
    let tree = cargo(&folder, &["tree", "--edges", "normal", "--prefix", "none", "--no-dedupe"]);
    let (stdout, stderr) = (text(&tree.stdout), text(&tree.stderr));
    let packages: BTreeSet<&str> = stdout.lines().filter(|line| !line.starts_with("outside ")).collect();
    assert!(tree.status.success() && packages.len() > 5, "{stdout}{stderr}");
    assert!(packages.len() <= MOST_PACKAGES, "{}: {packages:#?}", packages.len());
    let is_there = |name: &str| packages.iter().any(|package| package.starts_with(&format!("{name} ")));
    assert!(is_there("bsr-simulator") && !["zip", "safetensors", "tempfile", "clap"].iter().any(|name| is_there(name)));
}

#[test]
fn the_readme_makes_a_crate() {
    let program = program();
    let folder = write_crate("outside", &program);

    let built = cargo(&folder, &["build", "--quiet"]);
    assert!(built.status.success(), "{}\n{}", text(&built.stderr), renamed(&program));

    let refused = text(&cargo(&folder, &["build", "--quiet", "--example", "auto"]).stderr);
    assert!(refused.contains("`Auto` is there with the feature `tuner` alone"), "{refused}");

    let simulated = cargo(&folder, &["run", "--quiet", "--bin", "simulated"]);
    let (stdout, stderr) = (text(&simulated.stdout), text(&simulated.stderr));
    assert!(stdout.contains("Bsr<f16>(512 x 224 in blocks of 512 x 112, 1 of 2 stored)"), "{stdout}{stderr}");
    assert!(stderr.starts_with("Error: ") && stderr.contains("7 x 40"), "{stderr}");

    let readme = cargo(&folder, &["run", "--quiet", "--bin", "readme"]);
    let (stdout, stderr) = (text(&readme.stdout), text(&readme.stderr));
    assert!(readme.status.success() && stdout.starts_with("C is 512 x 128"), "{stdout}{stderr}");
    // Where no GPU runs the kernel or its fallbacks, the program says why, and what would.
    if let Err(error) = bsr::gpu::Device::open_for("sm_70") {
        assert_eq!(stderr.trim_end(), error.to_string());
        assert!(stderr.contains("\n  help: "), "{stderr}");
    }
}
