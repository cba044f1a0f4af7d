//! Files that are written: none that is read, and none that is there, is lost.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use bsr::write::{self, Options};
use bsr::{Bsr, Pattern};
use predicates::prelude::*;
use predicates::str::{contains, is_empty, starts_with};

use super::{Folder, SPACE};
use crate::SMALL;

/// How long a test waits for what a process does: it fails rather than hang.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn an_output_that_is_an_input_is_refused_by_whatever_name() {
    let folder = Folder::new();
    folder.database("a.db");
    folder.matrix("m.npz");
    fs::write(folder.path("k.toml"), "bm = 64\nbn = 64\nbk = 32\n").unwrap();
    fs::write(folder.path("s.toml"), "bm = 64\nbn = [64, 128]\nbk = 32\n").unwrap();
    fs::write(folder.path("m.mtx"), "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n").unwrap();
    for name in ["t.json", "u.json", "a.db-wal"] {
        fs::write(folder.path(name), "what was there").unwrap();
    }
    for name in ["a.db", "m.npz", "k.toml", "t.json", "u.json"] {
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
        &["run", SMALL, "--device", "sim", "--matrix", "m.npz", "--write-ptx", "m.npz"],
        &["run", SMALL, "--device", "sim", "--matrix", "m.npz", "--trace", "soft-m.npz"],
        &["bench", SMALL, "--matrix", "m.npz", "--json", "m.npz"],
        &["emit", "k.toml", "-o", "k.toml"],
        &["emit", "k.toml", "--cubin", "hard-k.toml"],
        &["run", "k.toml", "--device", "sim", "--write-ptx", "soft-k.toml"],
        &["space", "s.toml", "--json", "s.toml"],
        &["sweep", "--space", "s.toml", "--device", "fake", "--db", "s.toml"],
        &["sweep", "--space", SPACE, "--matrix", "m.mtx", "--device", "fake", "--db", "m.mtx"],
        &["trace", "--compare", "t.json", "u.json", "-o", "t.json", "--force"],
        &["trace", "--compare", "t.json", "u.json", "-o", "hard-u.json", "--force"],
        &["trace", "t.json", "--svg", "soft-t.json", "--force"],
        &["report", "a.db", "-o", "t.json", "--traces", "t.json", "--force"],
        &["export", "soft-a.db", "--json", "a.db-wal", "--force"],
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
fn the_file_behind_standard_input_is_not_replaced() {
    let folder = Folder::new();
    fs::write(folder.path("s.toml"), "bm = 64\nbn = 64\nbk = 32\n").unwrap();
    fs::hard_link(folder.path("s.toml"), folder.path("hard")).unwrap();
    symlink("s.toml", folder.path("soft")).unwrap();
    for args in [
        "emit - -o s.toml --force",
        "emit - --cubin hard --force",
        "run - --device sim --write-ptx soft --force",
        "report - -o s.toml --force",
    ] {
        let told = contains("would replace the file behind standard input, which is read");
        folder.shell("exec < s.toml", args).code(2).stdout(is_empty()).stderr(told);
        assert_eq!(fs::read_to_string(folder.path("s.toml")).unwrap(), "bm = 64\nbn = 64\nbk = 32\n", "{args}");
    }
    folder.shell("exec < s.toml", "emit - -o a.ptx").success();
}

#[test]
fn a_file_that_is_there_is_replaced_where_that_is_asked_for() {
    let folder = Folder::new();
    folder.database("a.db");
    folder.matrix("m.npz");
    fs::write(folder.path("old"), "what was there").unwrap();
    fs::write(folder.path("old.npz"), "what was there").unwrap();
    let run = ["run", SMALL, "--device", "sim", "--m", "64", "--n", "64", "--k", "64"];
    for args in [
        &["emit", SMALL, "-o", "old"][..],
        &["export", "a.db", "--json", "old"],
        &["export", "a.db", "--csv", "old"],
        &["export", "a.db", "--tuned", "old"],
        &["loss", "a.db", "--json", "old"],
        &["report", "a.db", "-o", "old"],
        &["advise", "m.npz", "--predict", "--json", "old"],
        &["space", "quick", "--kernel", "bm=64,bk=64", "--json", "old"],
        &["convert", "m.npz", "--block", "64x32", "-o", "old.npz"],
        &[&run[..], &["--write-ptx", "old"]].concat(),
        &[&run[..], &["--trace", "old"]].concat(),
    ] {
        let name = if args[0] == "convert" { "old.npz" } else { "old" };
        let kept = contains(format!("{name}: the file is there, and is kept\n  help: --force, or another name"));
        folder.bsr(args).code(2).stdout(is_empty()).stderr(kept);
        assert_eq!(fs::read_to_string(folder.path(name)).unwrap(), "what was there", "{args:?}");
        folder.bsr(&[args, &["--force"]].concat()).success();
        assert_ne!(fs::read(folder.path(name)).unwrap(), b"what was there", "{args:?}");
        fs::write(folder.path(name), "what was there").unwrap();
    }
    let cubin = ["emit", SMALL, "--cubin", "old"];
    folder.bsr(&cubin).code(2).stderr(contains("old: the file is there, and is kept"));
    let bench = ["bench", SMALL, "--json", "old"];
    folder.bsr(&bench).code(2).stderr(contains("old: the file is there, and is kept"));
    // A database is added to.
    folder.database("a.db");
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
        "emit k.toml -o old --force",
        "export a.db --json old --force",
        "export a.db --csv old --force",
        "report a.db -o old --force",
        "advise m.npz --predict --json old --force",
        "space quick --kernel bm=64,bk=64 --json old --force",
        "convert m.npz --block 64x32 --force -o old.npz",
        "run 'bm = 64, bn = 64, bk = 32' --device sim --m 64 --n 64 --k 64 --write-ptx old --force",
        "run 'bm = 64, bn = 64, bk = 32' --device sim --m 64 --n 64 --k 64 --trace old --force",
    ] {
        let name = if args.contains("npz --block") { "old.npz" } else { "old" };
        let told = contains(format!("cannot write {name}: ")).and(contains("partial").or(contains("Zip")).not());
        folder.shell("trap '' XFSZ; ulimit -f 1", args).code(2).stderr(told);
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
    folder.bsr(&["emit", SMALL, "-o", "link", "--force"]).success();
    assert!(folder.path("link").is_symlink());
    assert!(fs::read_to_string(folder.path("real")).unwrap().contains(".target sm_90a"));
    assert_eq!(folder.path("real").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    folder.bsr(&["emit", SMALL, "-o", "."]).code(2).stderr(contains("cannot write ."));
}

/// Whoever may write anything is somebody else here.
#[test]
fn on_a_read_only_medium_a_database_is_read_and_nothing_is_written() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    const NOBODY: u32 = 65534;
    let folder = Folder::new();
    for name in ["medium", "own"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    folder.database("medium/a.db");
    let before = fs::read(folder.path("medium/a.db")).unwrap();
    fs::copy(assert_cmd::cargo::cargo_bin("bsr"), folder.path("bsr")).unwrap();
    let may = |name: &str, mode| fs::set_permissions(folder.path(name), fs::Permissions::from_mode(mode)).unwrap();
    for (name, mode) in [("", 0o755), ("own", 0o777), ("medium/a.db", 0o444), ("medium", 0o555)] {
        may(name, mode);
    }
    let bsr = |args: &[&str]| {
        let mut command = std::process::Command::new(folder.path("bsr"));
        command.args(args).current_dir(folder.0.path()).env("HOME", folder.path("own"));
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        assert_cmd::Command::from_std(command).assert()
    };
    for args in [
        &["report", "medium/a.db"][..],
        &["loss", "medium/a.db"],
        &["export", "medium/a.db", "--json", "own/a.jsonl"],
        &["explain", "bm = 64, bk = 32", "--db", "medium/a.db"],
        &["merge", "own/all.db", "medium/a.db"],
    ] {
        bsr(args).success();
    }
    let more = "bm = 64, bk = 32, mma = mma_sync, bn = [64, 80]";
    let sweep = ["sweep", "--space", more, "--m", "64", "--n", "64", "--k", "64", "--device", "fake", "--db"];
    let told = || contains("cannot be written: the file or its folder is read-only");
    bsr(&[&sweep[..], &["medium/a.db"]].concat()).code(2).stderr(told());
    bsr(&["merge", "medium/a.db", "own/all.db"]).code(2).stderr(told());
    bsr(&["emit", SMALL, "-o", "medium/k.ptx"]).code(2).stderr(contains("cannot write medium/k.ptx: "));
    let there: Vec<_> = fs::read_dir(folder.path("medium")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    may("medium", 0o755);
    assert_eq!(there, ["a.db"]);
    assert!(fs::read(folder.path("medium/a.db")).unwrap() == before);
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
    folder
        .bsr(&[&run[..], &["--write-ptx", "-"]].concat())
        .success()
        .stdout(contains(".target"))
        .stderr(contains("result"));
    folder.bsr(&[&run[..], &["--trace", "-"]].concat()).success().stdout(json()).stderr(contains("result"));
    let written =
        folder.bsr(&["convert", "m.npz", "--block", "64x32", "-o", "-"]).success().stderr(contains("written"));
    assert!(written.get_output().stdout.starts_with(b"PK"));
    assert_eq!(folder.names(), ["a.db", "m.npz"]);
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
        assert!(start.elapsed() < PATIENCE, "no partial file");
        std::thread::sleep(Duration::from_millis(1));
    }
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert!(interrupted.success());
    assert_eq!(status.code(), Some(130));
    assert_eq!(folder.names(), ["m.safetensors"]);
}
