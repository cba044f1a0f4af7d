//! `bsr advise` as its users meet it.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use bsr::Arch;
use bsr::gpu::Device;
use predicates::str::{contains, is_empty, starts_with};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("runtime/tests/data").join(name)
}

fn advise(file: &str, args: &str) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("bsr").unwrap();
    command.arg("advise").arg(data(file)).args(args.split_whitespace()).assert()
}

fn said(assert: assert_cmd::assert::Assert) -> String {
    String::from_utf8(assert.success().stderr(is_empty()).get_output().stdout.clone()).unwrap()
}

#[test]
fn every_block_is_weighed_against_dense() {
    insta::assert_snapshot!("stiffness_matrix", said(advise("bcsstk13.mtx", "--predict")));
}

#[test]
fn pruning_shows_what_is_left_of_the_norm() {
    let args = "--predict --n 512 --blocks 16x16,64x64 --keep 0.25";
    insta::assert_snapshot!("pruned", said(advise("dlmc_transformer_magnitude_0.98_ffn1.smtx", args)));
}

#[test]
fn a_matrix_that_should_stay_dense_is_told_so() {
    // 2 % of elements, nowhere in particular: nearly all blocks hold one.
    let stay = |blocks: &str| {
        let args = format!("--predict --n 8192 --no-reorder --blocks {blocks}");
        said(advise("dlmc_transformer_magnitude_0.98_ffn1.smtx", &args))
    };
    let slower = stay("16x16,32x32");
    assert!(slower.contains("| dense is faster: ") && slower.contains("\nbest      stay dense: "), "{slower}");
    let even = stay("16x16,128x128");
    insta::assert_snapshot!("stay_dense", even);
    assert!(even.contains("| about even ") && even.contains("\nbest      stay dense: "), "{even}");
}

#[test]
fn the_json_has_what_the_table_has() {
    let args = "--predict --blocks 32x32,64x64 --json -";
    let output = advise("bcsstk13.mtx", args).success().stderr(contains("| 32x32 |")).get_output().clone();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["schema"].as_u64(), json["source"].as_str()), (Some(1), Some("bcsstk13.mtx")));
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
