//! What the command reads and writes: nothing that is read is lost, and nothing that is wrong with a file goes unsaid.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use bsr::read::Sparse;
use bsr::write::{self, Options};
use bsr::{Bsr, Pattern, f16};
use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};

const SMALL: &str = "bm = 64, bn = 64, bk = 32";
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

#[test]
fn an_output_that_is_an_input_is_refused_by_whatever_name() {
    let folder = Folder::new();
    folder.database("a.db");
    folder.matrix("m.npz");
    fs::write(folder.path("k.toml"), "bm = 64\nbn = 64\nbk = 32\n").unwrap();
    fs::write(folder.path("s.toml"), "bm = 64\nbn = [64, 128]\nbk = 32\n").unwrap();
    fs::write(folder.path("m.mtx"), "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n").unwrap();
    for name in ["a.db", "m.npz", "k.toml"] {
        fs::hard_link(folder.path(name), folder.path(&format!("hard-{name}"))).unwrap();
        symlink(name, folder.path(&format!("soft-{name}"))).unwrap();
    }
    let before: Vec<(String, Vec<u8>)> =
        folder.names().into_iter().map(|name| (name.clone(), fs::read(folder.path(&name)).unwrap())).collect();
    for args in [
        &["export", "a.db", "--json", "a.db"][..],
        &["export", "a.db", "--csv", "./a.db"],
        &["export", "a.db", "--tuned", "hard-a.db"],
        &["export", "soft-a.db", "--json", "a.db"],
        &["loss", "a.db", "--json", "a.db"],
        &["regret", "a.db", "--json", "soft-a.db"],
        &["report", "a.db", "-o", "hard-a.db"],
        &["advise", "m.npz", "--predict", "--json", "m.npz"],
        &["convert", "m.npz", "--block", "32x32", "--force", "-o", "hard-m.npz"],
        &["run", SMALL, "--device", "sim", "--matrix", "m.npz", "--ptx", "m.npz"],
        &["run", SMALL, "--device", "sim", "--matrix", "m.npz", "--trace", "soft-m.npz"],
        &["bench", SMALL, "--matrix", "m.npz", "--json", "m.npz"],
        &["emit", "k.toml", "-o", "k.toml"],
        &["emit", "k.toml", "--cubin", "hard-k.toml"],
        &["run", "k.toml", "--device", "sim", "--ptx", "soft-k.toml"],
        &["space", "s.toml", "--json", "s.toml"],
        &["sweep", "--space", "s.toml", "--device", "fake", "--db", "s.toml"],
        &["sweep", "--space", SPACE, "--matrix", "m.mtx", "--device", "fake", "--db", "m.mtx"],
    ] {
        folder
            .bsr(args)
            .code(2)
            .stdout(is_empty())
            .stderr(contains("would replace").and(contains("help: another name")));
        for (name, content) in &before {
            assert_eq!(&fs::read(folder.path(name)).unwrap(), content, "{args:?} changed {name}");
        }
    }
    assert_eq!(folder.names().len(), before.len());
}

#[test]
fn two_outputs_of_one_name_are_refused() {
    let folder = Folder::new();
    folder.database("a.db");
    for (csv, json) in [("x", "./x"), ("-", "-")] {
        let args = ["export", "a.db", "--csv", csv, "--json", json];
        folder.bsr(&args).code(2).stderr(contains("--csv and --json would both write"));
    }
    folder.bsr(&["export", "a.db", "--csv", "/dev/null", "--json", "/dev/null"]).success();
    assert!(!folder.path("x").exists());
}

#[test]
fn a_disk_without_room_leaves_what_was_there() {
    let folder = Folder::new();
    folder.database("a.db");
    folder.matrix("m.npz");
    fs::write(folder.path("old"), "what was there").unwrap();
    fs::write(folder.path("old.npz"), "what was there").unwrap();
    fs::write(folder.path("k.toml"), "bm = 64\nbn = 64\nbk = 32\n").unwrap();
    // A file may have no more than a block, and the signal that says so is ignored.
    for args in [
        "emit k.toml -o old",
        "export a.db --json old",
        "export a.db --csv old",
        "report a.db -o old",
        "advise m.npz --predict --json old",
        "space quick --kernel bm=64,bk=64 --json old",
        "convert m.npz --block 64x32 --force -o old.npz",
    ] {
        let name = if args.contains("npz --block") { "old.npz" } else { "old" };
        folder.shell("trap '' XFSZ; ulimit -f 1", args).code(2).stderr(contains(format!("cannot write {name}: ")));
        assert_eq!(fs::read_to_string(folder.path(name)).unwrap(), "what was there", "{args}");
    }
    assert!(folder.names().iter().all(|name| !name.contains("partial")), "{:?}", folder.names());
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next_one() {
    let folder = Folder::new();
    let old = SystemTime::now() - Duration::from_secs(60);
    let [abandoned, held] = [".bsr-abandoned.partial", ".bsr-held.partial"].map(|name| {
        let file = File::create(folder.path(name)).unwrap();
        file.set_modified(old).unwrap();
        file
    });
    drop(abandoned);
    held.lock().unwrap();
    fs::write(folder.path(".bsr-other"), "").unwrap();
    folder.bsr(&["emit", SMALL, "-o", "a.ptx"]).success();
    assert_eq!(folder.names(), [".bsr-held.partial", ".bsr-other", "a.ptx"]);
}

#[test]
fn a_link_is_followed_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    fs::write(folder.path("real"), "old").unwrap();
    fs::set_permissions(folder.path("real"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real", folder.path("link")).unwrap();
    folder.bsr(&["emit", SMALL, "-o", "link"]).success();
    assert!(folder.path("link").is_symlink());
    assert!(fs::read_to_string(folder.path("real")).unwrap().contains(".target sm_90a"));
    assert_eq!(folder.path("real").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    folder.bsr(&["emit", SMALL, "-o", "."]).code(2).stderr(contains("cannot write ."));
}

#[test]
fn a_dash_is_standard_output_everywhere() {
    let folder = Folder::new();
    folder.database("a.db");
    folder.matrix("m.npz");
    let json = || starts_with("{").or(starts_with("["));
    folder.bsr(&["export", "a.db", "--csv", "-"]).success().stdout(contains("median_us")).stderr(contains("written"));
    folder.bsr(&["export", "a.db", "--json", "-"]).success().stdout(json());
    folder.bsr(&["export", "a.db", "--tuned", "-"]).success();
    folder
        .bsr(&["loss", "a.db", "--json", "-"])
        .success()
        .stdout(is_empty())
        .stderr(contains("unknown: of 0 problems"));
    folder
        .bsr(&["report", "a.db", "-o", "-"])
        .success()
        .stdout(starts_with("<!DOCTYPE html>"))
        .stderr(contains("product"));
    folder
        .bsr(&["advise", "m.npz", "--predict", "--json", "-"])
        .success()
        .stdout(json())
        .stderr(contains("even below"));
    folder.bsr(&["space", "quick", "--kernel", "bm=64,bk=64", "--json", "-"]).success().stdout(json());
    folder.bsr(&["emit", SMALL, "-o", "-"]).success().stdout(contains(".target sm_90a"));
    let run = ["run", SMALL, "--device", "sim", "--m", "64", "--n", "64", "--k", "64", "--pattern", "topk:1"];
    folder.bsr(&[&run[..], &["--ptx", "-"]].concat()).success().stdout(contains(".target")).stderr(contains("result"));
    folder.bsr(&[&run[..], &["--trace", "-"]].concat()).success().stdout(json()).stderr(contains("result"));
    let written =
        folder.bsr(&["convert", "m.npz", "--block", "64x32", "-o", "-"]).success().stderr(contains("written"));
    assert!(written.get_output().stdout.starts_with(b"PK"));
    assert_eq!(folder.names(), ["a.db", "m.npz"]);
}

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
            .stderr(contains("huge.npy: it does not fit memory: the file 4398.0 GB = 4398.0 GB"));
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
fn names_are_escaped_where_they_are_printed() {
    let folder = Folder::new();
    let name = "a\u{1b}[31m\u{7}\u{202e}b";
    let hidden = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.chars().any(|c| matches!(c, '\u{1b}' | '\u{7}' | '\u{202e}'))
    };
    let matrix = folder.matrix("m.npz");
    fs::copy(matrix, folder.path(&format!("{name}.npz"))).unwrap();
    let path = format!("{name}.npz");
    for (args, code) in [
        (vec!["convert", path.as_str(), "--block", "64x32"], 0),
        (vec!["convert", path.as_str(), "--block", "64x32", "--tensor", name], 2),
        (vec!["advise", path.as_str(), "--predict"], 0),
        (vec!["run", SMALL, "--device", "sim", "--matrix", path.as_str()], 0),
        (vec!["export", name], 2),
        (vec!["plan", name], 2),
        (vec!["space", name], 2),
        (vec![name], 2),
        (vec!["run", SMALL, "--pattern", name], 2),
        (vec!["report", path.as_str()], 2),
    ] {
        let output = folder.bsr(&args).code(code).get_output().clone();
        assert!(!hidden(&output.stdout) && !hidden(&output.stderr), "{args:?}");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // Of an argument that is none, colours are left out.
        assert!(said.contains("\\u{202e}b"), "{args:?}: {said}");
        assert!(args.len() == 1 || args[1] == SMALL || said.contains("\\u{1b}[31m\\u{7}"), "{args:?}: {said}");
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
fn ten_errors_are_shown_and_the_others_counted() {
    let folder = Folder::new();
    for text in [format!("bm = 64{}", ",".repeat(2_000)), "x = 1, ".repeat(500)] {
        let output = folder.bsr(&["plan", &text]).code(2).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.matches("--> spec:").count(), 10);
        assert!(said.contains("more errors") && said.len() < 200_000, "{} bytes", said.len());
    }
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

/// The bar of a sweep and what is half written: Ctrl-C ends the command with 130, and leaves nothing behind.
#[test]
fn ctrl_c_leaves_no_partial_file() {
    let folder = Folder::new();
    // Some megabytes of values that take a while to be deflated.
    let matrix = Bsr::<f32>::generate(Pattern::Random(1.0), 4096, 2048, (64, 64), 0).unwrap();
    write::save(&matrix, folder.path("m.safetensors"), Options::default()).unwrap();
    let program = assert_cmd::cargo::cargo_bin("bsr");
    let mut command = std::process::Command::new(program);
    command.args(["convert", "m.safetensors", "--block", "64x64", "-o", "out.npz"]).current_dir(folder.0.path());
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let start = std::time::Instant::now();
    while !folder.names().iter().any(|name| name.contains("partial")) && child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert!(interrupted.success());
    assert_eq!(status.code(), Some(130));
    assert_eq!(folder.names(), ["m.safetensors"]);
}

#[test]
fn what_is_left_out_is_told() {
    let folder = Folder::new();
    folder.database("a.db");
    let told = || contains("left out  1 of 1 products: their times are a test's, not measured on a GPU\n");
    folder.bsr(&["export", "a.db", "--tuned", "t.jsonl"]).success().stdout(told());
    folder.bsr(&["loss", "a.db"]).success().stdout(told().and(contains("tuned     unknown: of 0 problems")));
}

#[test]
fn tables_are_as_wide_as_the_terminal() {
    let folder = Folder::new();
    folder.database("a.db");
    let lines = |width: &str| {
        let mut command = Command::cargo_bin("bsr").unwrap();
        let output =
            command.args(["loss", "a.db"]).env("COLUMNS", width).current_dir(folder.0.path()).output().unwrap();
        let mut command = Command::cargo_bin("bsr").unwrap();
        let report =
            command.args(["report", "a.db"]).env("COLUMNS", width).current_dir(folder.0.path()).output().unwrap();
        let text = [output.stdout, report.stdout].concat();
        String::from_utf8(text).unwrap().lines().filter(|line| line.starts_with('|')).map(str::len).max().unwrap()
    };
    assert!(lines("60") <= 60, "{}", lines("60"));
}

#[test]
fn shells_are_told_what_to_complete() {
    let folder = Folder::new();
    for (shell, words) in [("bash", "_bsr"), ("zsh", "#compdef bsr"), ("fish", "complete -c bsr")] {
        folder.bsr(&["completions", shell]).success().stdout(contains(words).and(contains("watchdog")));
    }
}
