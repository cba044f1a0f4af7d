//! `bsr check`: right kernels pass, all of them is executed, and what is wrong with a kernel is said so that it can be mended.

use predicates::prelude::*;
use predicates::str::{contains, is_empty};

use crate::{FLAGSHIP, SMALL, bsr, plan};

#[test]
fn kernels_pass_their_check() {
    // Ten kinds in two schedules; lists of the GPU and the edges of a tile in one; the first kind again in two.
    for (spec, budget, problems, runs) in [
        (SMALL, "registers 40 | 232", "20", "31 runs"),
        (
            "bm = 128, bn = 128, bk = 32, cluster = 1, dtype = bf16, out = f32, b_layout = col",
            "shared    ",
            "28",
            "39 runs",
        ),
    ] {
        bsr(&["check", spec, "--problems", problems, "--schedules", "2"])
            .assert()
            .success()
            .stderr(is_empty())
            .stdout(contains(budget).and(contains("\nfull row  C[")).and(contains(" and 1 more: clean")))
            .stdout(contains("\nGPU lists C[").and(contains("\nedges     C[")))
            .stdout(contains(format!("\nverdict   passes: {runs} without a finding, relative error at most ")));
    }
    bsr(&["check", SMALL, "--schedules", "0"]).assert().code(2);
}

#[test]
fn a_check_executes_all_of_a_kernel_but_what_it_can_say_why() {
    for spec in [
        "bm = 64, bn = 32, bk = 32",
        "bm = 16, bn = 64, bk = 16",
        "bm = 192, bn = 128, bk = 16",
        "bm = 64, bn = 32, bk = 32, op = sdd",
        "bm = 16, bn = 32, bk = 16, mma = mma_sync",
        "bm = 8, bn = 16, bk = 8, mma = scalar, dtype = f32",
        "bm = 64, bn = 32, bk = 32, pdl = early",
        "bm = 64, bn = 64, bk = 16, split = 3",
        "bm = 16, bn = 64, bk = 32, split = 3",
        "bm = 64, bn = 32, bk = 32, batch = on, split = 2",
        "bm = 64, bn = 32, bk = 32, swap = off, pack = 2, split = auto",
        "bm = 64, bn = 32, bk = 32, epilogue = \"|| (relu(acc), row_max(acc))\"",
        "op = attention, bm = 64, bn = 16, bk = 32",
        "op = attention, bm = 64, bn = 16, bk = 32, split = 2, score = \"|| if i >= j { s * scale } else { -inf }\"",
    ] {
        let covers = contains("\ncoverage  ").and(contains("without a known reason").not());
        bsr(&["check", spec, "--schedules", "2"]).assert().success().stdout(covers);
    }
}

/// Which of a ring's stages a tile begins with is a matter of the lengths of all tiles before it.
#[test]
fn tiles_of_attention_begin_at_every_stage_where_keys_are_divided_or_heads_share_tiles() {
    for spec in [
        "op = attention, bm = 128, bn = 16, bk = 32, consumers = 2, split = 3",
        "op = attention, bm = 64, bn = 16, bk = 128, pack_heads = 4",
        "op = attention, bm = 64, bn = 16, bk = 32, pack_heads = 1",
        "op = attention, bm = 64, bn = 16, bk = 32, pack_heads = 4, split = auto",
        "op = attention, bm = 64, bn = 16, bk = 32, pack_heads = 2, split = 4",
    ] {
        let covers = contains("\ncoverage  ").and(contains("without a known reason").not());
        bsr(&["check", spec, "--schedules", "1"]).assert().success().stdout(covers);
    }
}

/// What a check says of a kernel in whose text `from` is `to`, once.
fn with(spec: &str, from: &str, to: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited.ptx");
    let text = plan(spec).ptx().text().to_owned();
    assert!(text.contains(from), "{spec}: no {from}");
    std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
    let failed = bsr(&["check", spec, "--ptx", file.to_str().unwrap(), "--schedules", "1"]).assert().code(1);
    String::from_utf8(failed.get_output().stdout.clone()).unwrap()
}

/// Each is right on problems that are the same twice, end elsewhere, or are judged by the norm of all errors.
#[test]
fn mistakes_that_show_in_one_kind_of_problem_alone_are_found() {
    let list = "bm = 64, bn = 32, bk = 64, batch = on";
    let text = plan(list).ptx().text().to_owned();
    let line = text.lines().find(|line| line.contains("mad.wide.u32 %rd_map_a, %r_next_problem")).unwrap();
    let said = with(list, line, "    mov.u64 %rd_map_a, %rd_maps;");
    assert!(said.contains("wrong result"), "{said}");

    // Stores of the first rows without the limit.
    let warp = "bm = 16, bn = 32, bk = 16, mma = mma_sync";
    let text = plan(warp).ptx().text().to_owned();
    let line = text.lines().find(|line| line.contains("setp.gt.s32 %p_t, %r_lines_left, 0;")).unwrap();
    let said = with(warp, line, &line.replace("setp.gt", "setp.ge"));
    assert!(said.lines().any(|line| line.starts_with("edges ") && line.contains("FAILS")), "{said}");
}

#[test]
fn kernels_that_list_work_are_checked_with_those_that_read_their_lists() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lists.ptx");
    let text = bsr_codegen::lists::ptx();
    let check = |from: &str, to: &str| {
        assert!(text.contains(from), "no {from}");
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        bsr(&["check", SMALL, "--lists", file.to_str().unwrap(), "--schedules", "1"]).assert()
    };
    let bound = "setp.ge.u64 %p_bad, %rd_column2,";
    check(bound, bound).success().stdout(contains("\npatterns  "));
    let wrong = check(bound, &bound.replace("setp.ge", "setp.gt")).code(1);
    wrong.stderr(contains("checked or listed wrongly").and(contains("in load 2, I32")));
    bsr(&["check", SMALL, "--lists", "none.ptx"]).assert().code(2).stderr(contains("cannot read none.ptx"));
}

/// The lists of an attention whose mask is on the GPU are those of the host, whatever the mask.
#[test]
fn kernels_that_list_attentions_are_checked_with_those_that_read_their_lists() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lists.ptx");
    let spec = "op = attention, bm = 64, bn = 16, bk = 32";
    let text = bsr_codegen::lists::ptx();
    let check = |entry: &str, from: &str, to: &str| {
        let begin = text.find(&format!(".entry {entry}(")).unwrap();
        let (before, (own, after)) = (&text[..begin], text[begin..].split_once("\n}").unwrap());
        assert!(own.contains(from), "{entry}: no {from}");
        std::fs::write(&file, format!("{before}{}\n}}{after}", own.replace(from, to))).unwrap();
        bsr(&["check", spec, "--lists", file.to_str().unwrap(), "--schedules", "1"]).assert()
    };
    let entry = "bsr_lists_attention_tiles";
    let right = check(entry, "ret;", "ret;").success();
    right.stdout(contains("\nGPU lists ").and(contains("\npatterns  ")));
    for (entry, from, to) in [
        (entry, "setp.ge.u32 %p_t, %r_i, %r_length", "setp.gt.u32 %p_t, %r_i, %r_length"),
        (
            "bsr_lists_attention_steps",
            "setp.lt.u32 %p_in, %r_query, %r_queries",
            "setp.le.u32 %p_in, %r_query, %r_queries",
        ),
        ("bsr_lists_attention_steps", "setp.gt.u32 %p_flag, %r_at,", "setp.ge.u32 %p_flag, %r_at,"),
    ] {
        check(entry, from, to).code(1).stderr(contains("is listed wrongly"));
    }
    let mask = check(
        "bsr_lists_mask_columns",
        "setp.lt.and.u32 %p_in, %r_t, %r_capacity",
        "setp.le.and.u32 %p_in, %r_t, %r_capacity",
    );
    mask.code(1).stderr(contains("the pattern of a mask of 300 x 3 blocks"));
}

/// A list is as long as it is said to be, and each of its products is compared.
#[test]
fn lists_of_products_are_as_long_as_is_asked() {
    let list = "bm = 64, bn = 32, bk = 64, batch = on";
    let sizes = ["--m", "128", "--n", "32", "--k", "128", "--schedules", "1"];
    let check = |more: &[&str]| bsr(&[&["check", list][..], &sizes, more].concat()).assert();
    check(&["--batch", "5"]).success().stdout(contains(", and 4 others: clean"));
    check(&[]).success().stdout(contains(", and another one: clean"));
    let run = ["run", list, "--device", "sim", "--m", "128", "--n", "32", "--k", "128", "--batch", "3"];
    bsr(&run).assert().success().stdout(contains("\nlist      3 products"));
    // A kernel that takes the maps of the second product for all that follow.
    let text = plan(list).ptx().text().to_owned();
    let line = text.lines().find(|line| line.contains("mad.wide.u32 %rd_map_a, %r_next_problem")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited.ptx");
    let wrong = format!("    min.u32 %r_next_problem, %r_next_problem, 1;\n{line}");
    std::fs::write(&file, text.replacen(line, &wrong, 1)).unwrap();
    let edited = ["--ptx", file.to_str().unwrap()];
    check(&edited).success();
    let failed = check(&[&edited[..], &["--batch", "3"]].concat()).code(1);
    failed.stderr(contains("wrong result").and(contains("--k 128 --batch 3 --schedules 1")));
    let beside = ["check", SMALL, "--batch", "3"];
    bsr(&beside).assert().code(2).stderr(contains("--batch 3 beside batch = off").and(contains("help: batch = on")));
    check(&["--batch", "5000"]).code(2).stderr(contains("lists have at most 4096 products"));
}

/// Problems are counted as those of a product are; beyond one of each kind they come again in other sizes.
#[test]
fn as_many_problems_of_an_attention_run_as_are_asked_for() {
    let spec = "op = attention, bm = 64, bn = 16, bk = 32, k_step = 16, stages = 2";
    for (count, runs) in [("1", "passes: 1 runs "), ("3", "passes: 3 runs ")] {
        bsr(&["check", spec, "--problems", count, "--schedules", "1"]).assert().success().stdout(contains(runs));
    }
    let again = contains("passes: 18 runs ")
        .and(contains("\nwhole     "))
        .and(contains(" and 1 more: clean"))
        .and(contains(" and 3 more: clean"));
    bsr(&["check", spec, "--problems", "18", "--schedules", "1"]).assert().success().stdout(again);
    bsr(&["check", spec, "--problems", "3", "--heads", "2"]).assert().code(2);
}

/// What numbers that are constant in runs, few remainders of keys and one norm over everything do not see.
#[test]
fn off_by_ones_of_an_attention_are_found() {
    let spec = "op = attention, bm = 64, bn = 16, bk = 32, d = 16, k_step = 16, stages = 2, score = \"|a: Rows<f32>, b: Cols<f32>| if \
                a == b { s * scale } else { -inf }\"";
    let text = plan(spec).ptx().text().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited.ptx");
    for (from, to) in [
        ("[%rd_column1 + 4]", "[%rd_column1 + 8]"),
        ("mul.wide.u32 %rd_t, %r_head, %r_stride", "mov.u64 %rd_t, 0"),
        ("setp.gt.s32 %p_key0, %r_t, 8", "setp.gt.s32 %p_key0, %r_t, 9"),
        ("setp.gt.s32 %p_key1, %r_t, 9", "setp.ge.s32 %p_key1, %r_t, 9"),
        ("selp.f32 %f_base0, 0f00000000, %f_max0, %p_t", "mov.f32 %f_base0, %f_max0"),
    ] {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "{from}");
        std::fs::write(&file, &wrong).unwrap();
        let args = ["check", spec, "--ptx", file.to_str().unwrap(), "--schedules", "1"];
        bsr(&args).assert().code(1).stderr(contains("error: "));
    }
}

/// Sizes that no attention has, or no machine, are refused by every command before anything is drawn or stored.
#[cfg(target_os = "linux")]
#[test]
fn attentions_that_cannot_be_had_are_refused() {
    let spec = "op = attention, bm = 64, bn = 64, bk = 64";
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("a.db");
    let sweep = ["sweep", "--device", "sim", "--limit", "1", "--db", db.to_str().unwrap(), "--kernel"];
    let commands: [&[&str]; 5] =
        [&["check"], &["run", "--device", "sim"], &["trace", "--device", "sim"], &["explain"], &sweep];
    for (flags, said) in [
        (["--heads", "3", "--key-heads", "2"], "3 heads of Q cannot share 2 heads of K"),
        (["--heads", "2", "--key-heads", "4"], "2 heads of Q cannot share 4 heads of K"),
        (["--heads", "65536", "--batch", "65536"], "does not fit this machine's memory\n  Q "),
        (["--n", "134217728", "--batch", "134217728"], "does not fit this machine's memory\n  Q "),
    ] {
        for command in commands {
            let args = [command, &[spec], &flags[..]].concat();
            bsr(&args).assert().code(2).stderr(contains(said));
        }
    }
    assert!(!db.exists());
    let packed = format!("{spec}, pack_heads = 4");
    let said = contains("2 heads that share a head of K are not tiles of 4");
    bsr(&["check", &packed, "--heads", "6", "--key-heads", "3"]).assert().code(2).stderr(said);
}

#[test]
fn a_check_refuses_what_cannot_be_planned() {
    bsr(&["check", "bm = 60, bn = 1, bk = 1"]).assert().code(2).stdout(is_empty());
}

/// The PTX of [`SMALL`] without the last line that contains `words`, in a file.
fn without_last(folder: &tempfile::TempDir, words: &str) -> String {
    let text = plan(SMALL).ptx().text().to_owned();
    let at = text.lines().enumerate().filter(|(_, line)| line.contains(words)).map(|(at, _)| at).last().unwrap();
    without_line(folder, &text, at)
}

/// The PTX of [`SMALL`] without the first line that contains `words`, in a file.
fn without(folder: &tempfile::TempDir, words: &str) -> String {
    let text = plan(SMALL).ptx().text().to_owned();
    let (at, _) = text.lines().enumerate().find(|(_, line)| line.contains(words)).unwrap();
    without_line(folder, &text, at)
}

fn without_line(folder: &tempfile::TempDir, text: &str, at: usize) -> String {
    let kept: Vec<&str> = text.lines().enumerate().filter(|(line, _)| *line != at).map(|(_, line)| line).collect();
    let file = folder.path().join("edited.ptx");
    std::fs::write(&file, kept.join("\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn edited_ptx_is_found_out_with_its_lines_and_the_command_that_replays_it() {
    let folder = tempfile::tempdir().unwrap();
    for (words, kind, line) in [
        ("wgmma.wait_group", "WgmmaRegisters: ", "wgmma.mma_async"),
        ("fence.proxy.async", "MissingProxyFence: ", "cp.async.bulk.tensor.2d.global"),
    ] {
        let file = without(&folder, words);
        let failed = bsr(&["check", SMALL, "--ptx", &file, "--problems", "2", "--seed", "3"])
            .assert()
            .code(1)
            .stdout(contains("verdict   FAILS: "))
            .stderr(contains(kind).and(contains("in section: ")));
        let said = String::from_utf8(failed.get_output().stderr.clone()).unwrap();

        // The lines that are named are those of the file.
        let text = std::fs::read_to_string(&file).unwrap();
        let named: Vec<(usize, &str)> = said
            .lines()
            .filter_map(|said| said.trim().strip_prefix("line ")?.split_once(": "))
            .map(|(number, words)| (number.parse().unwrap(), words))
            .collect();
        assert!(named.iter().any(|(_, words)| words.contains(line)), "{said}");
        for (number, words) in named {
            assert_eq!(text.lines().nth(number - 1).unwrap().trim(), words);
        }

        let (_, replay) = said.split_once("  replay: bsr check \"").unwrap();
        let (spec, flags) = replay.trim().split_once("\" ").unwrap();
        let mut args = vec!["check", spec];
        args.extend(flags.split(' '));
        let again = bsr(&args).assert().code(1).get_output().stderr.clone();
        assert_eq!(String::from_utf8(again).unwrap(), said);
    }
}

#[test]
fn a_wrong_result_says_how_many_elements_are_wrong_where_and_who_wrote_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited.ptx");
    let text = plan(SMALL).ptx().text().to_owned();
    // One product of every tile is subtracted.
    let wrong = text.replacen("%p_add, 1, 1,", "%p_add, -1, 1,", 1);
    assert_ne!(wrong, text);
    std::fs::write(&file, &wrong).unwrap();
    let args = ["check", SMALL, "--ptx", file.to_str().unwrap(), "--problems", "1", "--schedules", "1"];
    let failed = bsr(&args).assert().code(1).stderr(contains("elements are far off").and(contains("tile rows 0 to ")));
    let said = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
    let far: usize = said.lines().find_map(|l| l.trim().split_once(" of ")?.0.parse().ok()).unwrap();
    let mut written = 0;
    for line in said.lines().filter(|line| line.contains(" of them ")) {
        written += line.trim().split_once(" of them ").unwrap().0.parse::<usize>().unwrap();
    }
    assert_eq!(written, far, "{said}");
    let who = said.lines().find(|line| line.contains(" of them were written by CTA ")).unwrap();
    assert!(who.contains(", consumer ") && who.contains(" (warp "), "{who}");
    let (_, place) = who.split_once(", at line ").unwrap();
    let (number, words) = place.split_once(": ").unwrap();
    let named = wrong.lines().nth(number.parse::<usize>().unwrap() - 1).unwrap().trim();
    assert!(words.starts_with(named) && named.contains("cp.async.bulk.tensor"), "{who}");
}

#[test]
fn a_barrier_that_nobody_releases_is_a_deadlock_that_names_who_waits() {
    let folder = tempfile::tempdir().unwrap();
    let file = without(&folder, "mbarrier.arrive.expect_tx");
    bsr(&["check", SMALL, "--ptx", &file, "--problems", "1"]).assert().code(1).stderr(
        contains("Deadlock: no thread can proceed")
            .and(contains(": mbarrier.try_wait.parity"))
            .and(contains("more groups of threads")),
    );
}

#[test]
fn ptx_that_cannot_be_read_exits_with_2_and_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.ptx");
    let text = plan(SMALL).ptx().text().replacen("wgmma.fence.sync", "wgmma.fence.sinc", 1);
    let line = 1 + text.lines().position(|line| line.contains("sinc")).unwrap();
    std::fs::write(&file, text).unwrap();
    bsr(&["check", SMALL, "--ptx", file.to_str().unwrap()])
        .assert()
        .code(2)
        .stdout(is_empty())
        .stderr(contains(format!("broken.ptx:{line}:")).and(contains("sinc")));

    std::fs::write(&file, plan(FLAGSHIP).ptx().text()).unwrap();
    bsr(&["check", SMALL, "--ptx", file.to_str().unwrap()])
        .assert()
        .code(2)
        .stderr(contains("the first line says that this"));
    bsr(&["check", SMALL, "--ptx", "none.ptx"]).assert().code(2).stderr(contains("cannot read none.ptx"));
}

/// What is said of a defect, on standard error.
fn said(file: &str) -> String {
    let failed = bsr(&["check", SMALL, "--ptx", file, "--problems", "3"]).assert().code(1);
    String::from_utf8(failed.get_output().stderr.clone()).unwrap()
}

#[test]
fn a_missing_wait_is_one_race_that_names_the_stage_the_buffer_the_barrier_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    // The consumers do not wait for a stage: its two copies, of A and of B, race with the products of both.
    let said = said(&without_last(&folder, "bra $full_"));
    assert!(said.starts_with("error: 1 finding in "), "{said}");
    for words in [
        "Race: a write, then a read, of the same bytes of shared memory of block 0 (byte ",
        "are not ordered: the copy completes mbarrier ",
        ", and the later access must wait for that phase; its warp last waited for mbarrier ",
        "at addresses 0x",
        ": wgmma.mma_async",
        ": @%p_lead cp.async.bulk.tensor",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    assert_eq!(said.matches("are not ordered").count(), 1, "{said}");
}

#[test]
fn a_stage_that_is_filled_too_early_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let said = said(&without(&folder, "bra $empty_"));
    assert!(said.contains("the buffer is filled again before it was released"), "{said}");
    assert!(said.contains("must arrive at the empty barrier after its last access"), "{said}");
}

#[test]
fn registers_that_the_pool_does_not_have_are_summed() {
    let folder = tempfile::tempdir().unwrap();
    let said = said(&without(&folder, "setmaxnreg.dec"));
    assert!(said.contains("Deadlock: no thread can proceed"), "{said}");
    let (_, sum) = said.split_once("more registers from the block's pool of ").unwrap();
    assert!(
        sum.starts_with("64512: 12 warps x 32 x 168 = 64512 are in use and 0 are free; setmaxnreg.dec of "),
        "{sum}"
    );
}
