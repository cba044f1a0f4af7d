//! The programs that capture launches, with CUDA's headers and no GPU: they compile, and a program that is linked with the stand-in
//! of the driver leaves a launch that `bsr sanitize` runs.
//!
//! The headers are looked for beside ptxas, where packages of the Python index and the toolkit have them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bsr;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder with `cuda_runtime.h` and `cupti.h`, and a compiler of C++; or why the test is skipped.
fn headers() -> Result<(PathBuf, String), String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if !Command::new(&compiler).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Err(format!("no {compiler}"));
    }
    let ptxas = std::env::var_os("PTXAS").ok_or("PTXAS is not set")?;
    let toolkit = Path::new(&ptxas).ancestors().nth(2).unwrap_or(Path::new("/")).to_owned();
    let places = [toolkit.join("include"), toolkit.join("extras/CUPTI/include")];
    let has = |name: &str| places.iter().any(|place| place.join(name).is_file());
    match ["cuda.h", "cuda_runtime.h", "crt/host_defines.h", "cupti.h"].into_iter().find(|name| !has(name)) {
        Some(missing) => Err(format!("no {missing} in {}", places[0].display())),
        None => Ok((toolkit, compiler)),
    }
}

/// Compiles a file of `examples/sanitize`, with all warnings.
fn compile((toolkit, compiler): &(PathBuf, String), args: &[&str]) {
    let include = |place: &str| format!("-I{}", toolkit.join(place).display());
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem"]).arg(toolkit.join("include"));
    let output = command.arg(include("extras/CUPTI/include")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn skipped() -> Option<(PathBuf, String)> {
    headers().inspect_err(|why| eprintln!("SKIPPED: {why}: the programs that capture launches")).ok()
}

#[test]
fn the_library_for_gpus_compiles() {
    let Some(found) = skipped() else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("examples/sanitize/capture_gpu.cpp");
    let out = folder.path().join("capture_gpu.so");
    compile(&found, &["-shared", "-fPIC", source.to_str().unwrap(), "-o", out.to_str().unwrap()]);
    assert!(fs::read(out).unwrap().windows(19).any(|name| name == b"InitializeInjection"));
}

/// A program with a structure, a tensor map of tiles and one of im2col mode: what they were is in the launch file, and the kernel
/// adds the right numbers.
#[test]
fn a_program_of_the_host_leaves_a_launch() {
    let Some(found) = skipped() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = |name: &str| root().join("tests/cli/files/captured").join(name).to_str().unwrap().to_owned();
    let stand_in = root().join("examples/sanitize/capture.cpp");
    compile(&found, &[&file("host.cpp"), stand_in.to_str().unwrap(), "-o", &at("host")]);
    let mut host = Command::new(at("host"));
    host.env("CAPTURE_PTX", file("kernel.ptx")).env("CAPTURE_FOLDER", at("launches"));
    let output = host.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let launch = fs::read_to_string(at("launches/0/launch.toml")).unwrap();
    for part in [
        "entry = \"kernel\"",
        "grid = [2, 1, 1]\ncluster = [2, 1, 1]\nblock = [32, 1, 1]\nshared = 1024",
        "type = \"f32\", dims = [8, 4, 3], strides = [32, 128], box = [8, 16], element_strides = [1, 1, 1], swizzle = 32, \
         fill_nan = false, im2col = { lower = [-1], upper = [1] }",
        "dims = [16, 4], strides = [64], box = [8, 4], element_strides = [1, 1], swizzle = 0, fill_nan = true }",
        "{ at = 0, buffer = \"b2\", offset = 4 }",
        "{ at = 8, type = \"u32\", value = [1069547520] }",
    ] {
        assert!(launch.contains(part), "{part} is not in\n{launch}");
    }
    let (text, described) = (file("kernel.ptx"), at("launches/0/launch.toml"));
    bsr(&["sanitize", &text, "--launch", &described, "--results", &at("results")]).assert().success();
    // From element 1 on: 1.5 times the column, whose first pixel is padding and whose second one is the image's first, and the tile, whose
    // lines are 16 numbers apart.
    let result = fs::read(at("results/b2.npy")).unwrap();
    let floats: Vec<f32> =
        result[result.len() - 132..].as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let want = |i: usize| 1.5 * i.saturating_sub(8) as f32 + (i / 8 * 16 + i % 8) as f32;
    assert_eq!(floats[1..], (0..32).map(want).collect::<Vec<_>>());
}
