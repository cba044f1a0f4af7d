//! Answers, errors and exit codes.

use bsr::Arch;
use bsr::gpu::Device;
use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};

use crate::{FLAGSHIP, SMALL, bsr, plan};

fn gpu_available() -> bool {
    Device::open(0).is_ok_and(|device| device.check_target(Arch::SM_90A.target).is_ok())
}

/// What the command says on stderr when it exits with `code`, nothing on stdout.
fn error_of(args: &[&str], code: i32) -> String {
    let output = bsr(args).assert().code(code).stdout(is_empty()).get_output().clone();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_spec_without_quotes_is_put_in_quotes() {
    for args in
        [&["plan", "bm", "=", "64,", "bn", "=", "64,", "bk", "=", "32"][..], &["plan", "bm=64", "bn=64", "bk=32"]]
    {
        let said = error_of(args, 2);
        let spec = if args.len() == 4 { "bm=64, bn=64, bk=32" } else { "bm = 64, bn = 64, bk = 32" };
        assert!(said.contains(&format!("help: put the spec in quotes: bsr plan \"{spec}\"")), "{said}");
    }
}

#[test]
fn plan_prints_the_canonical_spec_and_the_table() {
    let output = bsr(&["plan", "bk=112, bm=512, bn=128, stages=auto, dtype = f16"]).assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert_eq!(text, format!("{FLAGSHIP}\n\n{}", plan(FLAGSHIP)));
    insta::assert_snapshot!("plan_flagship", text);
}

#[test]
fn a_toml_file_is_a_spec_and_errors_name_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.toml");
    std::fs::write(&good, "[kernel]\nbm = 64\nbn = 128\nbk = 64\ndtype = \"bf16\"\n").unwrap();
    bsr(&["plan", good.to_str().unwrap()])
        .assert()
        .success()
        .stdout(starts_with("bm = 64, bn = 128, bk = 64, dtype = bf16\n\n"));

    std::fs::write(folder.path().join("bad.toml"), "bm = 64\nbn = 128\nbk = 60\n").unwrap();
    let output = bsr(&["plan", "bad.toml"]).current_dir(folder.path()).assert().code(2).get_output().clone();
    insta::assert_snapshot!("toml_error", String::from_utf8(output.stderr).unwrap());

    bsr(&["plan", "missing.toml"])
        .current_dir(folder.path())
        .assert()
        .code(2)
        .stderr(starts_with("error: cannot read missing.toml: "));
}

#[test]
fn wrong_specs_are_explained_under_the_guilty_words() {
    insta::assert_snapshot!("grammar_errors", error_of(&["plan", "bm = 512, bnn = 128, bk = \"x\""], 2));
    insta::assert_snapshot!("plan_errors", error_of(&["plan", "bm = 100, bn = 128, bk = 60"], 2));
    insta::assert_snapshot!("bench_errors", error_of(&["bench", "bm = 64, bn = 64", "bk = 64, bm = 1.5, bn = 8"], 2));
}

#[test]
fn emit_prints_or_writes_the_ptx() {
    let ptx = plan(FLAGSHIP).ptx();
    bsr(&["emit", FLAGSHIP]).assert().success().stdout(ptx.text().to_owned()).stderr(is_empty());
    bsr(&["emit", FLAGSHIP, "-o", "-"]).assert().success().stdout(ptx.text().to_owned());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spmm.ptx");
    bsr(&["emit", FLAGSHIP, "-o", file.to_str().unwrap()]).assert().success().stdout(is_empty());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ptx.text());

    let nowhere = folder.path().join("no/such/folder.ptx");
    bsr(&["emit", FLAGSHIP, "-o", nowhere.to_str().unwrap()]).assert().code(2).stderr(contains("cannot write"));
}

#[test]
fn a_cubin_without_ptxas_is_refused_and_says_where_it_looked() {
    let folder = tempfile::tempdir().unwrap();
    let cubin = folder.path().join("never.cubin");
    let args = ["emit", FLAGSHIP, "--cubin", cubin.to_str().unwrap()];
    bsr(&args)
        .assert()
        .code(2)
        .stderr("error: there is no ptxas at /nowhere/ptxas, where $PTXAS says\n  help: correct or unset $PTXAS\n");
    if !std::path::Path::new("/usr/local/cuda/bin/ptxas").is_file() {
        bsr(&args)
            .env_clear()
            .assert()
            .code(2)
            .stderr(contains("no ptxas: not in $PTXAS, on the PATH").and(contains("help: ")));
    }
    assert!(!cubin.exists());
}

/// A stand-in for ptxas: says what the real one says, and copies the PTX as the cubin.
#[cfg(unix)]
#[test]
fn what_ptxas_says_is_told() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let ptxas = folder.path().join("ptxas");
    let script = "#!/bin/sh\n\
        echo 'ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized' >&2\n\
        echo '    0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads' >&2\n\
        echo 'ptxas info    : Used 168 registers, used 1 barriers' >&2\n\
        cp \"$5\" \"$4\"\n";
    std::fs::write(&ptxas, script).unwrap();
    std::fs::set_permissions(&ptxas, std::fs::Permissions::from_mode(0o755)).unwrap();

    let cubin = folder.path().join("k.cubin");
    let emit = |script: &std::path::Path| {
        let mut command = bsr(&["emit", FLAGSHIP, "--force", "--cubin", cubin.to_str().unwrap()]);
        command.env("PTXAS", script);
        command.assert()
    };
    emit(&ptxas).success().stdout(is_empty()).stderr(
        contains("168 registers, 12 B of spills, 2 warnings")
            .and(contains("\nwarning: (C7510) Potential Performance Loss"))
            .and(contains("\nwarning: 12 B of registers are spilled")),
    );
    assert_eq!(std::fs::read_to_string(&cubin).unwrap(), plan(FLAGSHIP).ptx().text());

    std::fs::write(&ptxas, "#!/bin/sh\necho \"ptxas $5, line 7; error : nonsense\" >&2\nexit 255\n").unwrap();
    emit(&ptxas)
        .code(1)
        .stderr(starts_with("error: ptxas refuses the PTX").and(contains("the PTX, line 7; error : nonsense")));
}

#[test]
fn run_multiplies_on_the_gpu_or_on_the_simulator() {
    let args = ["run", FLAGSHIP, "--m", "1000", "--n", "72", "--k", "1000", "--pattern", "topk:4"];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spmm.ptx");
    let mut all = args.to_vec();
    all.extend(["--write-ptx", file.to_str().unwrap()]);
    let said = contains("problem   C[1000, 72] = A[1000, 1000] * B[1000, 72]\n")
        .and(contains("A         8 of 18 blocks of 512 x 112 stored (44.4 %), topk:4, seed 0\n"))
        .and(contains(plan(FLAGSHIP).ptx().fingerprint()))
        .and(contains("all 1000 rows against the f64 reference"))
        .and(contains("relative error "));
    let ran = bsr(&all).assert().code(0);
    if gpu_available() {
        ran.stdout(said.and(contains("TFLOP/s executed")));
    } else {
        ran.stdout(said.and(contains("findings  none")).and(contains("FLOP/s").not()))
            .stderr(starts_with("no CUDA device (").and(predicate::str::is_match("^[^\n]+\n$").unwrap()));
        bsr(&["bench", FLAGSHIP]).assert().code(3).stdout(is_empty()).stderr(starts_with("error: "));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), plan(FLAGSHIP).ptx().text());
}

#[test]
fn a_gpu_that_is_insisted_on_and_absent_exits_with_3() {
    if !gpu_available() {
        bsr(&["run", FLAGSHIP, "--device", "gpu"])
            .assert()
            .code(3)
            .stdout(contains("problem   C[4096, 4096]").and(contains("ptxas     not assembled")))
            .stderr(starts_with("no device, so nothing is multiplied: "));
    }
    bsr(&["bench", FLAGSHIP, "--device", "sim"]).assert().code(2).stderr(contains("measures nothing"));
}

#[test]
fn a_simulated_run_leaves_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let args = ["run", SMALL, "--device", "sim", "--trace", trace.to_str().unwrap(), "--m", "200", "--n", "100"];
    bsr(&args).assert().success().stderr(is_empty()).stdout(contains("trace     ").and(contains("cost model")));
    let read: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
    assert!(read["traceEvents"].as_array().unwrap().len() > 100);

    bsr(&["run", SMALL, "--trace", "t.json"]).assert().code(2).stderr(contains("help: --device sim"));
    let nowhere = ["run", SMALL, "--device", "sim", "--m", "64", "--trace", "/no/such/folder/t.json"];
    bsr(&nowhere).assert().code(2).stderr(contains("cannot write"));
}

#[test]
fn a_spec_alone_is_a_problem() {
    for spec in [FLAGSHIP, "bm = 64, bn = 64, bk = 16, dtype = bf16, out = f32", "bm = 128, bn = 256, bk = 512"] {
        bsr(&["run", spec]).assert().success();
    }
}

#[test]
fn a_matrix_from_a_file_reports_its_fill_in() {
    let matrix = concat!(env!("CARGO_MANIFEST_DIR"), "/runtime/tests/data/bcsstk13.mtx");
    let spec = "bm = 64, bn = 64, bk = 64";
    bsr(&["run", spec, "--matrix", matrix, "--n", "100"]).assert().success().stdout(
        contains("problem   C[2003, 100] = A[2003, 2003] * B[2003, 100]\n")
            .and(contains("bcsstk13.mtx, seed 0, values * 2^-"))
            .and(predicate::str::is_match(r"fill-in   \d+\.\d\d = \d+ stored values / \d+ nonzeros\n").unwrap()),
    );
    bsr(&["run", spec, "--matrix", matrix, "--m", "64"]).assert().code(2).stderr(contains("--matrix"));
    bsr(&["run", spec, "--matrix", "none.mtx"]).assert().code(2).stderr(starts_with("error: none.mtx: "));
}

#[test]
fn problems_that_cannot_be_had_exit_with_2() {
    for (flags, said) in [
        (vec!["--pattern", "topk:99"], "help: at most topk:"),
        (vec!["--pattern", "rnd:0.5"], "is not a pattern"),
        (vec!["--pattern", "random:1.5"], "not between 0 and 1"),
        (vec!["--m", "0"], "--m"),
        (vec!["--n", "many"], "--n"),
        (vec!["--k", "99999999999"], "--k"),
        (vec!["--tolerance", "0"], "above 0"),
        (vec!["--check", "some"], "all, auto or a number"),
        (vec!["--device", "tpu"], "auto, gpu"),
    ] {
        let mut args = vec!["run", FLAGSHIP];
        args.extend(flags);
        bsr(&args).assert().code(2).stdout(is_empty()).stderr(contains(said));
    }
    bsr(&["bench", FLAGSHIP, "--time-limit", "-1"]).assert().code(2);
    bsr(&["bench"]).assert().code(2).stderr(contains("<SPEC>"));
    bsr(&["walk"]).assert().code(2);
    bsr(&[]).assert().code(2).stderr(contains("Usage: bsr <COMMAND>"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_problem_larger_than_memory_is_refused_with_the_arithmetic() {
    bsr(&["run", FLAGSHIP, "--m", "100000000", "--n", "100000000", "--pattern", "topk:1"])
        .assert()
        .code(2)
        .stderr(contains("does not fit this machine's memory").and(contains("available")));
}

#[test]
fn doctor_succeeds_everywhere_unless_a_gpu_is_required() {
    let gpu = gpu_available();
    bsr(&["doctor"])
        .assert()
        .success()
        .stdout(contains("works   bsr plan\n").and(contains("cannot  bsr emit --cubin\n")).and(contains("help: ")))
        .stdout(contains("works   bsr run, on the simulator\nworks   bsr check\n"))
        .stdout(contains(if gpu { "works   bsr run --device gpu\n" } else { "cannot  bsr run --device gpu\n" }));
    bsr(&["doctor", "--require-gpu"]).assert().code(if gpu { 0 } else { 3 });
}

#[test]
fn help_has_examples_and_exit_codes() {
    let keys = "Keys of a SPEC:\n  bm           rows of a sparsity block\n";
    bsr(&["--help"]).assert().success().stdout(contains("Examples:").and(contains("3 no device")).and(contains(keys)));
    for command in ["plan", "emit", "run", "check", "bench", "space"] {
        bsr(&[command, "--help"]).assert().success().stdout(contains("Examples:"));
    }
    bsr(&["--version"]).assert().success().stdout(starts_with("bsr "));
}

#[cfg(unix)]
#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    use std::process::{Command, Stdio};

    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("bsr"))
        .args(["emit", FLAGSHIP])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

/// A kernel with an epilogue, as one argument of a shell.
const FUSED: &str = "bm = 64, bn = 64, bk = 32, epilogue = \"|bias: Cols<bf16>, res: Dense<f16>, s: f32| \
                     (gelu(s * acc + bias) + res, row_max(acc))\"";

#[test]
fn a_kernel_with_an_epilogue_is_run_and_checked_on_random_inputs() {
    let sizes = ["--m", "100", "--n", "90", "--k", "130"];
    let mut args = vec!["run", FUSED, "--device", "sim"];
    args.extend(sizes);
    bsr(&args).assert().success().stdout(contains("epilogue = \"|bias: Cols<bf16>").and(contains("is right")));
    bsr(&["check", FUSED, "--problems", "3", "--schedules", "2"])
        .assert()
        .success()
        .stdout(contains("passes: 6 runs without a finding"));
    bsr(&["plan", FUSED]).assert().success().stdout(contains("`res` is loaded into staging"));
    let wrong = FUSED.replace("gelu", "gelo");
    let said = error_of(&["plan", &wrong], 2);
    assert!(said.contains("there is no function `gelo`") && said.contains("did you mean `gelu`?"), "{said}");
    assert!(said.contains("^^^^"), "{said}");
}

#[test]
fn a_space_tells_its_points_and_why_others_are_none() {
    bsr(&["space"]).assert().success().stdout(
        contains("| hopper-f16 ")
            .and(contains("| hopper-fp8 "))
            .and(contains("| ampere-wmma "))
            .and(contains("| quick ")),
    );
    let quick = bsr(&["space", "quick", "--kernel", "bm = 24, bk = 24"]).assert().success().stderr(is_empty());
    insta::assert_snapshot!("space_quick", String::from_utf8(quick.get_output().stdout.clone()).unwrap());

    let lists = "bm = 128, bk = 64, bn = [128, 256], stages = 5..=6, cluster = [auto, 2]";
    bsr(&["space", lists, "--list"]).assert().success().stderr(is_empty()).stdout(
        "bm = 128, bn = 128, bk = 64, stages = 5\nbm = 128, bn = 128, bk = 64, stages = 5, cluster = 2\n\
         bm = 128, bn = 128, bk = 64, stages = 6\nbm = 128, bn = 128, bk = 64, stages = 6, cluster = 2\n",
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("points.json");
    bsr(&["space", "hopper-f16", "--kernel", "bm = 512, bk = 112", "--json", file.to_str().unwrap()])
        .assert()
        .success();
    let read: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let [legal, rejected, repeated] = ["legal", "rejected", "repeated"].map(|key| read[key].as_array().unwrap().len());
    assert!(legal >= 300, "{legal}");
    assert_eq!(read["points"], legal + rejected + repeated);
    assert_eq!(read["facts"], "bm = 512, bk = 112");
}

#[test]
fn spaces_that_cannot_be_had_exit_with_2() {
    insta::assert_snapshot!("space_open", error_of(&["space", "hopper-f16"], 2));
    insta::assert_snapshot!(
        "space_conflict",
        error_of(&["space", "hopper-f16", "--kernel", "bm = 64, bk = 64, dtype = i8"], 2)
    );
    insta::assert_snapshot!("space_wrong_key", error_of(&["space", "bm = 64, bk = 64, bn = 64, stagse = 2..=3"], 2));
    insta::assert_snapshot!("space_unknown", error_of(&["space", "hopper-f8"], 2));
    insta::assert_snapshot!("space_missing_fact", error_of(&["space", "quick", "--kernel", "bm = 6x"], 2));
    insta::assert_snapshot!(
        "space_choice",
        error_of(&["space", "quick", "--kernel", "bm = 64, bk = 64, stages = 3"], 2)
    );
    error_of(&["space", "none.toml"], 2);
}
