//! `bsr advise` and `bsr explain` as their users meet them.

use assert_cmd::Command;
use bsr::Arch;
use bsr::gpu::Device;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, is_empty, starts_with};

use crate::{data, said};

fn advise(file: &str, args: &str) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("bsr").unwrap();
    command.arg("advise").arg(data(file)).args(args.split_whitespace()).assert()
}

#[test]
fn every_block_is_weighed_against_dense() {
    insta::assert_snapshot!("stiffness_matrix", said(advise("bcsstk13.mtx", "--predict")));
}

#[test]
fn finite_elements_have_small_blocks_in_f64() {
    insta::assert_snapshot!("small_blocks", said(advise("bcsstk13.mtx", "--predict --dtype f64")));
    advise("bcsstk13.mtx", "--predict --dtype i8").code(2).stderr(contains("f16, bf16, f32 or f64"));
}

/// Those of a field are found again, in f64 unless another type is said.
#[test]
fn fields_have_their_natural_blocks() {
    for (field, side, rows, blocks) in
        [("elasticity:4x3x3", 3, 192, 1000), ("euler:4x3x3", 5, 180, 186), ("shell:6x6", 6, 252, 304)]
    {
        let text = said(fields("advise", &["--field", field, "--predict", "--no-reorder"]));
        assert!(text.starts_with(&format!("matrix    {rows} x {rows}, ")) && text.contains(field), "{text}");
        assert!(text.contains(&format!("B[{rows}, 1], f64\n")), "{text}");
        let row = text.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        let row = row.into_iter().find(|row| row.get(1) == Some(&format!("{side}x{side}").as_str())).unwrap();
        assert_eq!(row[2], blocks.to_string(), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shell.npz");
    let path = file.to_str().unwrap();
    fields("convert", &["--field", "shell:6x6", "--block", "6x6", "-o", path]).success();
    let of_file = said(fields("advise", &[path, "--dtype", "f64", "--predict", "--no-reorder", "--blocks", "6x6"]));
    assert!(of_file.starts_with("matrix    252 x 252, "), "{of_file}");
    fields("advise", &["--field", "banana:3"]).code(2).stderr(contains("elasticity:16x16x16"));
    fields("advise", &["--field", "shell:0x4"]).code(2).stderr(contains("a size is 0"));
    fields("advise", &[path, "--field", "shell:6x6"]).code(2).stderr(contains("cannot be used with"));
    fields("advise", &[]).code(2).stderr(contains("--field"));
}

fn fields(command: &str, args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("bsr").unwrap().arg(command).args(args).assert()
}

#[test]
fn pruning_shows_what_is_left_of_the_norm() {
    let args = "--predict --n 512 --blocks 16x16,64x64 --keep 0.25";
    insta::assert_snapshot!("pruned", said(advise("dlmc_transformer_magnitude_0.98_ffn1.smtx", args)));
}

#[test]
fn nonzeros_that_are_nowhere_in_particular_stay_dense() {
    // 2 % of elements: nearly all blocks hold one.
    for n in ["8192", "512", "64"] {
        let args = format!("--predict --n {n} --no-reorder --blocks 16x16,64x16,64x64,128x128");
        let text = said(advise("dlmc_transformer_magnitude_0.98_ffn1.smtx", &args));
        assert!(
            text.contains("\nspread    unstructured: 2.00 % of all values") && text.contains("\nelse      "),
            "{text}"
        );
        let none = text.lines().filter(|line| line.starts_with('|')).all(|line| !line.contains("x faster"));
        assert!(none && text.contains("\nbest      stay dense: "), "{text}");
    }
    let args = "--predict --n 8192 --no-reorder --blocks 16x16,128x128";
    insta::assert_snapshot!("stay_dense", said(advise("dlmc_transformer_magnitude_0.98_ffn1.smtx", args)));
}

fn explained(args: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("bsr").unwrap().arg("explain").args(args).assert()
}

#[test]
fn explain_takes_cards_that_are_known_and_kernels_that_they_run() {
    let shape = ["bm = 64, bk = 64", "--m", "512", "--n", "512", "--k", "512", "--pattern", "random:0.3", "--gpu"];
    let of = |gpu: &str| explained(&[&shape[..], &[gpu]].concat());
    let h100 = said(of("h100 pcie"));
    assert!(h100.starts_with("gpu       NVIDIA H100 PCIe\n") && h100.contains(DATA_SHEET), "{h100}");
    let h200 = said(of("NVIDIA H200"));
    assert!(!h200.contains("assumed") && h200.contains("\ndense     "), "{h200}");
    of("banana").code(2).stderr(contains("no card that is known").and(contains("NVIDIA H200")));
    of("H100").code(2).stderr(contains("NVIDIA H100 NVL"));
}

/// What is said of a time that nothing was measured for.
const DATA_SHEET: &str = "\nrates     predicted from the data sheet of this card";

/// Kernels planned for the GPU's own architecture, on tensor cores wherever it has them for the type.
#[test]
fn explain_chooses_for_gpus_that_are_no_hopper() {
    let problem = ["--m", "4096", "--n", "4096", "--k", "4096", "--pattern", "random:0.125", "--gpu"];
    let of = |kernel: &str, gpu: &str| explained(&[&[kernel][..], &problem, &[gpu]].concat());
    for (types, gpu, mma, arch) in [
        ("", "A100", "mma_sync", "sm_80"),
        (", dtype = bf16", "A10", "mma_sync", "sm_86"),
        (", dtype = i8", "RTX 3090", "mma_sync", "sm_86"),
        (", dtype = e4m3", "L4", "mma_sync", "sm_89"),
        ("", "RTX 4090", "mma_sync", "sm_89"),
        (", dtype = e4m3", "RTX 5090", "mma_sync", "sm_120"),
        (", dtype = f32", "A100", "scalar", "sm_80"),
        (", op = sdd", "A100", "mma_sync", "sm_80"),
        (", op = sdd, transpose = on, dtype = bf16", "RTX 4090", "mma_sync", "sm_89"),
    ] {
        let text = said(of(&format!("bm = 128, bk = 128{types}"), gpu));
        let kernel = text.lines().find(|line| line.starts_with("kernel ")).unwrap();
        let says = |words: String| kernel.contains(&words);
        assert!(says(format!("mma = {mma}")) && says(format!("arch = {arch}")), "{gpu}: {kernel}");
        assert!(text.contains(DATA_SHEET) && !text.contains("wgmma"), "{gpu}: {text}");
    }
    let refused = |kernel: &str, why: &str| {
        of(kernel, "A100").code(2).stderr(contains("can be planned for this GPU").and(contains(why)));
    };
    refused("bm = 128, bk = 128, dtype = e4m3", "sm_80 does not multiply e4m3");
    refused("bm = 128, bk = 128, op = sdd, dtype = f64", "no kernels of op = sdd on f64");
    let attention = ["op = attention, bm = 64, bn = 128, bk = 64", "--m", "512", "--heads", "2", "--pattern", "causal"];
    for (gpu, arch) in [("A100", "sm_80"), ("L4", "sm_89"), ("RTX 5090", "sm_120")] {
        let text = said(explained(&[&attention[..], &["--gpu", gpu]].concat()));
        let kernel = text.lines().find(|line| line.starts_with("kernel ")).unwrap();
        let is_own = kernel.contains("mma = mma_sync") && kernel.contains(&format!("arch = {arch}"));
        assert!(is_own && text.contains(DATA_SHEET), "{gpu}: {text}");
    }
    let gradient = attention.map(|argument| argument.replace("attention", "attention_dq"));
    let gradient: Vec<&str> = gradient.iter().map(String::as_str).chain(["--gpu", "L4"]).collect();
    explained(&gradient).code(2).stderr(contains("the gradient of an attention needs mma = wgmma"));
}

/// Sparse times sparse: tiles of several blocks where much is stored, and of one block elsewhere; no other GPU has kernels.
#[test]
fn explain_chooses_for_two_sparse_factors() {
    let of = |kernel: &str, pattern: &str, gpu: &str| {
        let sizes = ["--m", "8192", "--n", "8192", "--k", "8192", "--pattern", pattern, "--gpu", gpu];
        explained(&[&[kernel][..], &sizes].concat())
    };
    let large = "op = dss, bm = 128, bn = 128, bk = 128";
    let kernel = |kernel: &str, pattern: &str| {
        let text = said(of(kernel, pattern, "H200"));
        assert!(text.contains("; B: density ") && text.contains("\ndense     "), "{text}");
        text.lines().find(|line| line.starts_with("kernel ")).unwrap().to_owned()
    };
    assert!(kernel(large, "random:0.5").contains("pack = 2"));
    assert!(!kernel(large, "random:0.25").contains("pack"));
    assert!(kernel("op = sss, bm = 64, bn = 64, bk = 64", "random:0.25").contains("pack = 3"));
    of(large, "random:0.5", "A100").code(2).stderr(contains("can be planned for this GPU"));
}

/// The flagship was tuned in f16; bf16 has as many bytes. A matrix all of whose blocks are stored stays dense.
#[test]
fn explain_counts_f16_for_bf16_and_never_calls_a_full_matrix_faster() {
    let flagship = ["--m", "8192", "--n", "8192", "--k", "8288", "--pattern", "topk:16", "--gpu", "H200"];
    let text = said(explained(&[&["bm = 512, bk = 112, dtype = bf16"][..], &flagship].concat()));
    assert!(
        text.contains("was tuned with f16, whose elements are as large") && text.contains("dtype = bf16"),
        "{text}"
    );
    let full =
        ["bm = 64, bk = 64", "--m", "1024", "--n", "512", "--k", "1024", "--pattern", "random:1", "--gpu", "H200"];
    let text = said(explained(&full));
    assert!(text.contains("\ndense     ") && !text.contains("x faster"), "{text}");
}

#[test]
fn the_json_has_what_the_table_has() {
    let args = "--predict --blocks 32x32,64x64 --json -";
    let output = advise("bcsstk13.mtx", args).success().stderr(contains("| 32x32 |")).get_output().clone();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["schema"].as_u64(), json["source"].as_str()), (Some(2), Some("bcsstk13.mtx")));
    assert_eq!((json["nonzeros"].as_u64(), json["n"].as_u64()), (Some(83_883), Some(4096)));
    assert!(json["device"].is_null() && json["candidates"][0]["measured"].is_null());
    let [small, large] = [0, 1].map(|at| &json["candidates"][at]);
    assert_eq!((small["block"][0].as_u64(), small["given"]["blocks"].as_u64()), (Some(32), Some(815)));
    assert!(small["reordered"]["blocks"].as_u64().unwrap() < 815);
    let us = |value: &serde_json::Value| value["predicted"]["us"].as_f64().unwrap();
    let speedup =
        us(&serde_json::json!({ "predicted": json["dense"] })) / us(&large["given"]).min(us(&large["reordered"]));
    assert!((speedup - large["predicted_speedup"].as_f64().unwrap()).abs() < 1e-9);
    // Useful operations: those on nonzeros.
    let useful = 2.0 * 83_883.0 * 4096.0 / us(&small["given"]) / 1e6;
    assert!((useful - small["given"]["useful_tflops"].as_f64().unwrap()).abs() < 1e-6);
}

#[test]
fn without_a_gpu_it_is_said_and_insisting_fails() {
    if Device::open(0).is_ok_and(|device| device.check_target(Arch::SM_90A.target).is_ok()) {
        said(advise("bcsstk13.mtx", "--measure --blocks 64x64 --n 1024"));
        return;
    }
    advise("bcsstk13.mtx", "--blocks 64x64").success().stdout(contains("not measured: no CUDA d"));
    advise("bcsstk13.mtx", "--blocks 64x64 --measure").code(3).stdout(is_empty()).stderr(starts_with("error: "));
}

#[test]
fn bad_input_exits_with_2() {
    for (args, said) in [
        ("--blocks 64", "rows x columns of a block"),
        ("--blocks 64x64,", "rows x columns of a block"),
        ("--n 0", "--n"),
        ("--measure --predict", "--predict"),
        ("--json /no/such/folder/a.json --blocks 64x64 --predict", "cannot write"),
        ("--device sim", "measures nothing"),
    ] {
        advise("bcsstk13.mtx", args).code(2).stderr(contains(said));
    }
}
