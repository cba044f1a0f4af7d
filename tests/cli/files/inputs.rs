//! Files that are read: whatever they hold, and however much of it.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use assert_cmd::Command;
use bsr::read::Sparse;
use bsr::write::{self, Options};
use bsr::{Bsr, Pattern};
use predicates::prelude::*;
use predicates::str::{contains, starts_with};

use super::{Folder, SPACE};
use crate::SMALL;

/// Replaces one word of a file by another of as many bytes.
fn spoil(path: &Path, word: &[u8], by: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(word.len()).position(|found| found == word).unwrap();
    bytes[at..at + by.len()].copy_from_slice(by);
    fs::write(path, bytes).unwrap();
}

#[test]
fn one_bad_row_is_told_and_the_others_are_used_and_merged() {
    let folder = Folder::new();
    let path = folder.database("a.db");
    spoil(&path, b"timed", b"timid");
    let told = || contains("a.db: 1 rows cannot be read and are left out").and(contains("`timid` is no verdict"));
    let rows = folder.bsr(&["export", "a.db", "--json", "-"]).success().stderr(told());
    let lines = String::from_utf8(rows.get_output().stdout.clone()).unwrap();
    // Three kernels and two libraries, less one.
    assert_eq!(lines.lines().count(), 4);
    folder.bsr(&["report", "a.db"]).success().stderr(told());
    folder.bsr(&["loss", "a.db"]).success().stderr(told());
    folder.bsr(&["explain", "bm = 64, bk = 32", "--db", "a.db"]).success().stderr(told());
    folder
        .bsr(&["merge", "all.db", "a.db"])
        .success()
        .stdout(contains("4 of 5 records are new, 1 rows cannot be read"))
        .stderr(contains("left where they are"));
    folder.bsr(&["export", "all.db", "--json", "-"]).success().stderr(contains("cannot be read").not());
    // What cannot be read is measured again.
    folder.database("a.db");
}

#[test]
fn a_bit_that_flipped_is_noticed() {
    let folder = Folder::new();
    let path = folder.database("a.db");
    spoil(&path, b"bm = 64, bn = 16, bk = 32", b"bm = 64, bn = 17, bk = 32");
    folder.bsr(&["export", "a.db"]).success().stderr(contains("differs from its digest: it was altered"));
}

#[test]
fn values_that_are_not_finite_are_told_with_their_place() {
    let folder = Folder::new();
    let triplets = vec![(0, 0, 1.0), (3, 7, f64::NAN), (5, 1, f64::INFINITY)];
    let matrix = Sparse::from_triplets(64, 64, triplets).unwrap().to_bsr::<f32>((64, 32)).unwrap().0;
    write::save(&matrix, folder.path("m.npz"), Options::default()).unwrap();
    let place = || contains("NaN at row 3, column 7").and(contains("2 values are NaN or infinite"));
    folder.bsr(&["run", SMALL, "--device", "sim", "--matrix", "m.npz"]).code(2).stderr(place());
    folder.bsr(&["sweep", "--space", SPACE, "--device", "fake", "--matrix", "m.npz"]).code(2).stderr(place());
    folder
        .bsr(&["convert", "m.npz", "--block", "32x32"])
        .success()
        .stdout(contains("2 values are NaN or infinite, the first is NaN at row 3, column 7; they are kept"));
}

#[test]
fn values_that_a_type_rounds_to_zero_are_counted() {
    let folder = Folder::new();
    let triplets = vec![(0, 0, 1.0), (3, 7, 1e-9), (5, 1, -2e-8)];
    let matrix = Sparse::from_triplets(64, 64, triplets).unwrap().to_bsr::<f32>((64, 32)).unwrap().0;
    write::save(&matrix, folder.path("m.npz"), Options::default()).unwrap();
    let convert = |dtype| folder.bsr(&["convert", "m.npz", "--block", "32x32", "--dtype", dtype]).success();
    convert("f16").stdout(contains("2 of 3 nonzeros are too small for f16, and 0 in it: --dtype bf16 or f32"));
    convert("bf16").stdout(contains("too small").not());
}

/// What a pattern takes is asked for before it is drawn; so is what blocks of a file take.
#[test]
fn a_pattern_that_does_not_fit_memory_is_refused_before_it_is_drawn() {
    let folder = Folder::new();
    fs::write(
        folder.path("m.mtx"),
        "%%MatrixMarket matrix coordinate real general\n100000 100000 2\n1 1 1\n99999 9 1\n",
    )
    .unwrap();
    let large = "'bm = 64, bn = 64, bk = 16' --device sim --m 134217728 --k 134217728";
    for args in [
        format!("run {large} --pattern topk:4"),
        format!("run {large} --pattern random:0.0000001"),
        format!("run {large} --pattern powerlaw:0.0000001"),
        "convert m.mtx --block 100000x100000".to_owned(),
    ] {
        folder.shell("ulimit -v 300000", &args).code(2).stderr(contains("memory"));
    }
}

#[test]
fn threads_that_cannot_be_had_are_refused() {
    let folder = Folder::new();
    let told = contains("RAYON_NUM_THREADS = 100000: more than").and(contains("help: unset it"));
    folder.shell("export RAYON_NUM_THREADS=100000", &format!("plan '{SMALL}'")).code(2).stderr(told);
    folder.shell("export RAYON_NUM_THREADS=3", &format!("plan '{SMALL}'")).success();
}

#[test]
fn what_does_not_fit_memory_is_refused_before_it_is_read() {
    let folder = Folder::new();
    // A header of 128 bytes, and 2^40 elements of which none is on the disk.
    let mut header = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    header.extend(
        format!("{:<117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (1048576, 1048576), }").as_bytes(),
    );
    fs::write(folder.path("huge.npy"), &header).unwrap();
    let grown = File::options().write(true).open(folder.path("huge.npy")).unwrap().set_len(128 + (4 << 40));
    if grown.is_ok() {
        folder
            .bsr(&["convert", "huge.npy", "--block", "64x64"])
            .code(2)
            .stderr(contains("huge.npy: it does not fit memory\n  the file 4398.0 GB = 4398.0 GB"));
    }
    // Under a limit of the process: zeros that unpack to a gigabyte.
    let zeros = Bsr::<f32>::generate(Pattern::Random(1.0), 64, 64, (64, 64), 0).unwrap();
    let dense = zeros.structure().clone();
    let large = Bsr::from_structure(dense, vec![0.0_f32; 64 * 64]).unwrap();
    write::save(&large, folder.path("small.npz"), Options::default()).unwrap();
    folder.shell("ulimit -v 4000000", "convert small.npz --block 64x64").success();
    fs::write(folder.path("half.npy"), &header).unwrap();
    let text = String::from_utf8_lossy(&header).replace("(1048576, 1048576)", "(32768, 16384)    ");
    let mut bytes = header[..10].to_vec();
    bytes.extend(text.split_once('{').map(|(_, rest)| format!("{{{rest}")).unwrap().as_bytes());
    fs::write(folder.path("half.npy"), &bytes).unwrap();
    File::options().write(true).open(folder.path("half.npy")).unwrap().set_len(128 + (2 << 30)).unwrap();
    folder
        .shell("ulimit -v 2000000", "convert half.npy --block 64x64")
        .code(2)
        .stderr(contains("half.npy: it does not fit memory").and(contains("are available")));
}

#[test]
fn what_never_ends_is_not_read_to_its_end() {
    let folder = Folder::new();
    folder.database("a.db");
    for name in ["zero.toml", "zero.mtx", "zero.npy"] {
        symlink("/dev/zero", folder.path(name)).unwrap();
    }
    for (args, words) in [
        ("plan zero.toml", "longer than 1.0 MB"),
        ("space zero.toml", "longer than 4.2 MB"),
        ("sweep --device fake --workloads zero.toml", "longer than 4.2 MB"),
        ("loss a.db --table /dev/zero", "longer than"),
        ("report /dev/zero", "longer than"),
        ("convert zero.mtx --block 4x4", "it goes on after"),
        ("run 'bm = 64, bn = 64, bk = 32' --device sim --matrix zero.npy", "it goes on after"),
    ] {
        folder.shell("ulimit -v 3000000", args).code(2).stderr(contains(words));
    }
}

#[test]
fn a_name_that_no_database_holds_is_refused() {
    let folder = Folder::new();
    let name = std::ffi::OsStr::from_bytes(b"m\xff.npz");
    fs::copy(folder.matrix("m.npz"), folder.0.path().join(name)).unwrap();
    let mut command = Command::cargo_bin("bsr").unwrap();
    command.current_dir(folder.0.path()).args(["sweep", "--space", SPACE, "--device", "fake", "--matrix"]).arg(name);
    command.assert().code(2).stderr(contains("is not UTF-8").and(contains("rename")));
}

#[test]
fn workloads_are_checked_as_flags_are() {
    let folder = Folder::new();
    for (line, words) in [("m = 0", "m = 0"), ("n = 4611686018427387904", "n = 4611686018427387904")] {
        let text =
            format!("[[workload]]\nkernel = 'bm = 64, bk = 32, mma = mma_sync'\npattern = 'random:0.5'\n{line}\n");
        fs::write(folder.path("w.toml"), text).unwrap();
        folder
            .bsr(&["sweep", "--device", "fake", "--workloads", "w.toml"])
            .code(2)
            .stderr(contains("w.toml, workload 1").and(contains(words)).and(contains("at most 134217728")));
    }
    assert!(!folder.path("bsr.db").exists());
}

#[test]
fn one_of_several_matrices_is_multiplied_and_remembered() {
    let folder = Folder::new();
    let header = r#"{"one":{"dtype":"F32","shape":[64,32],"data_offsets":[0,8192]},"two":{"dtype":"F32","shape":[64,64],"data_offsets":[8192,24576]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..24576 / 4).flat_map(|at| ((at % 7) as f32).to_le_bytes()));
    fs::write(folder.path("w.safetensors"), bytes).unwrap();
    let run = ["run", SMALL, "--device", "sim", "--n", "64", "--matrix", "w.safetensors"];
    folder.bsr(&run).code(2).stderr(contains("there are 2 matrices").and(contains("two [64, 64] F32")));
    folder
        .bsr(&[&run[..], &["--tensor", "two"]].concat())
        .success()
        .stdout(contains("C[64, 64] = A[64, 64] * B[64, 64]").and(contains("w.safetensors:two")));
    let sweep = ["sweep", "--space", SPACE, "--n", "64", "--device", "fake", "--matrix", "w.safetensors"];
    folder
        .bsr(&[&sweep[..], &["--tensor", "one"]].concat())
        .success()
        .stdout(contains("k = 32; w.safetensors:one, seed 0"));
    folder.bsr(&["export", "bsr.db", "--json", "-"]).success().stdout(contains(r#""tensor":{"file":"#));
    folder.bsr(&["report", "bsr.db"]).success().stdout(contains("w.safetensors:one"));
    folder.bsr(&["run", SMALL, "--tensor", "two"]).code(2).stderr(contains("--matrix"));
}

#[test]
fn a_spec_may_come_by_standard_input() {
    let folder = Folder::new();
    for text in ["bm = 64, bn = 64, bk = 32\n", "[kernel]\nbm = 64\nbn = 64\nbk = 32\n"] {
        let mut command = Command::cargo_bin("bsr").unwrap();
        command
            .args(["plan", "-"])
            .write_stdin(text)
            .assert()
            .success()
            .stdout(starts_with("bm = 64, bn = 64, bk = 32\n"));
    }
    let mut command = Command::cargo_bin("bsr").unwrap();
    let told = contains("--> standard input:2:6");
    command.args(["plan", "-"]).write_stdin("bm = 64\nbn = x\nbk = 32\n").assert().code(2).stderr(told);
    drop(folder);
}

#[test]
fn what_is_called_a_database_and_is_none_is_told_alike() {
    let folder = Folder::new();
    fs::write(folder.path("junk.db"), "no database ".repeat(100)).unwrap();
    for args in [
        &["report", "junk.db"][..],
        &["export", "junk.db"],
        &["merge", "new.db", "junk.db"],
        &["sweep", "--space", SPACE, "--device", "fake", "--db", "junk.db"],
    ] {
        folder.bsr(args).code(2).stderr(contains("junk.db: not an SQLite database; it is left as it is"));
    }
}

#[test]
fn brackets_without_end_are_refused_wherever_a_spec_stands() {
    let folder = Folder::new();
    let deep = format!("|| {}acc{}", "(".repeat(20_000), ")".repeat(20_000));
    let told = || contains("an expression is nested more than 100 levels deep");
    let spec = format!("bm = 64, bn = 64, bk = 32, epilogue = \"{deep}\"");
    folder.bsr(&["plan", &spec]).code(2).stderr(told());
    fs::write(folder.path("k.toml"), spec.replace(", ", "\n")).unwrap();
    folder.bsr(&["plan", "k.toml"]).code(2).stderr(told());
    fs::write(folder.path("s.toml"), format!("bm = 64\nbn = [64, 128]\nbk = 32\nepilogue = \"{deep}\"\n")).unwrap();
    folder.bsr(&["space", "s.toml"]).code(2).stderr(told());
    let workload =
        format!("[[workload]]\nkernel = 'bm = 64, bk = 32, epilogue = \"{deep}\"'\npattern = 'random:0.5'\n");
    fs::write(folder.path("w.toml"), workload).unwrap();
    folder.bsr(&["sweep", "--device", "fake", "--workloads", "w.toml"]).code(2).stderr(told());
    let [open, close] = ["(", ")"].map(|bracket| bracket.repeat(20_000));
    let keys = "bm = 64, bk = 32, bn = [64, 128]";
    let constraint = format!("[[part]]\nkeys = \"{keys}\"\nconstraints = [\"{open}bn{close} > 1\"]\n");
    fs::write(folder.path("c.toml"), constraint).unwrap();
    folder.bsr(&["space", "c.toml"]).code(2).stderr(contains("constraint"));

    // A record whose kernel is such a text is shown with it, or refused; the others are.
    folder.database("a.db");
    folder.bsr(&["export", "a.db", "--json", "r.jsonl"]).success();
    let records = fs::read_to_string(folder.path("r.jsonl")).unwrap();
    let kernel = "bm = 64, bn = 16, bk = 32, mma = mma_sync";
    assert!(records.contains(kernel));
    let altered = format!("bm = 64, bn = 16, bk = 32, epilogue = \\\"{deep}\\\"");
    fs::write(folder.path("r.jsonl"), records.replace(kernel, &altered)).unwrap();
    let output = folder.bsr(&["report", "r.jsonl"]).get_output().clone();
    assert!(output.status.code().is_some_and(|code| code == 0 || code == 2), "{:?}", output.status);
}

#[test]
fn an_archive_that_unpacks_to_more_than_memory_is_refused_before_it_is_unpacked() {
    let folder = Folder::new();
    let path = folder.matrix("m.npz");
    let mut bytes = fs::read(&path).unwrap();
    // The size that the directory of the archive says its values have.
    let is_values = |entry: &[u8]| entry.starts_with(b"PK\x01\x02") && entry[46..].starts_with(b"data.npy");
    let at = (0..bytes.len() - 54).find(|at| is_values(&bytes[*at..])).unwrap();
    bytes[at + 24..at + 28].copy_from_slice(&0xf000_0000_u32.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let told = contains("does not fit memory\n  the array, unpacked, 4.0 GB").and(contains("are available"));
    folder.shell("ulimit -v 3000000", "convert m.npz --block 64x32").code(2).stderr(told);
}
