//! Mutants of the emitted kernels: each must be found out.
//!
//! The mutants are made automatically: every rule is applied to every statement it matches, one at a time, in two
//! kernels (a cluster of two with multicast and a deferred epilogue; a single block). A mutant counts as found when
//! a run reports anything or gives a wrong result, in one of a few schedules. The survivors are listed with the
//! reason why they are harmless; the list must be exact.
#![allow(clippy::unwrap_used)]

#[path = "common/emitted.rs"]
mod emitted;

use std::collections::BTreeMap;

use bsr_runtime::Pattern;
use bsr_simulator::{Options, Schedule};
use emitted::{Case, plan, run, tolerance};

/// What a rule does to a statement.
#[derive(Clone, Copy)]
enum Change {
    /// Removes it.
    Drop,
    /// Replaces a piece of it.
    Swap(&'static str, &'static str),
    /// Changes the number after this piece: times, plus.
    Scale(&'static str, u64, u64, i64),
    /// Exchanges it with the statement that many places below.
    Delay(usize),
}

use Change::{Delay, Drop, Scale, Swap};

/// (name, pieces that a statement must contain, change)
const RULES: &[(&str, &[&str], Change)] = &[
    ("drop the fence after mbarrier.init", &["fence.mbarrier_init"], Drop),
    ("drop an mbarrier.init", &["mbarrier.init"], Drop),
    ("one arrival too many expected", &["mbarrier.init"], Scale("], ", 1, 1, 1)),
    ("half the arrivals expected", &["mbarrier.init", "empty"], Scale("], ", 1, 2, 0)),
    ("skip the proxy fence", &["fence.proxy.async"], Drop),
    ("proxy fence after the barrier", &["fence.proxy.async"], Delay(1)),
    ("drop a named barrier", &["bar.sync"], Drop),
    ("named barrier of one warp less", &["bar.sync", "128"], Swap("128", "96")),
    ("drop a wait (branch back)", &["@!%p_ready bra"], Drop),
    ("drop an arrival", &["mbarrier.arrive"], Drop),
    ("halve expect_tx", &["expect_tx"], Scale("], ", 1, 2, 0)),
    ("double expect_tx", &["expect_tx"], Scale("], ", 2, 1, 0)),
    ("expect 128 bytes too few", &["expect_tx"], Scale("], ", 1, 1, -128)),
    ("swap the parity of a wait", &["xor.b32 %r_t, %r_parity, 1"], Swap("_parity, 1", "_parity, 0")),
    ("never flip the parity", &["@%p_t xor.b32 %r_parity"], Drop),
    ("ring of one stage less", &["setp.eq.u32 %p_t, %r_stage,"], Scale("%r_stage, ", 1, 1, -1)),
    ("ring of one stage more", &["setp.eq.u32 %p_t, %r_stage,"], Scale("%r_stage, ", 1, 1, 1)),
    ("never advance the stage", &["add.u32 %r_stage, %r_stage, 1"], Drop),
    ("drop wgmma.fence", &["wgmma.fence"], Drop),
    ("drop wgmma.commit_group", &["wgmma.commit_group"], Drop),
    ("drop wgmma.wait_group", &["wgmma.wait_group"], Drop),
    ("wgmma.wait_group lets one more run", &["wgmma.wait_group"], Scale("aligned ", 1, 1, 1)),
    ("release the stage before the wait", &["wgmma.wait_group"], Delay(1)),
    ("drop a wgmma", &["wgmma.mma_async"], Drop),
    ("wgmma: B not transposed", &["wgmma.mma_async", "0, 1;"], Swap("0, 1;", "0, 0;")),
    ("wgmma: accumulate the first", &["wgmma.mma_async", "%p_overwrite"], Swap("%p_overwrite", "%p_add")),
    ("wgmma: overwrite a later one", &["wgmma.mma_async", "%p_add"], Swap("%p_add", "%p_overwrite")),
    ("drop the commit of a store", &["cp.async.bulk.commit_group"], Drop),
    ("drop the wait for a store", &["cp.async.bulk.wait_group"], Drop),
    ("drop a tensor copy", &["cp.async.bulk.tensor"], Drop),
    ("multicast to one block only", &["multicast::cluster", "0x3"], Swap("0x3", "0x1")),
    ("multicast to a block that is not there", &["multicast::cluster", "0x3"], Swap("0x3", "0x7")),
    ("wrong swizzle bits in a descriptor", &["or.b64 %rd_desc"], Swap("0x4000", "0x8000")),
    ("wrong stride offset in a descriptor", &["or.b64 %rd_desc", "00004"], Swap("0x40000040", "0x40000020")),
    ("wrong leading offset in a descriptor", &["or.b64 %rd_desc_b"], Swap("2000000;", "1000000;")),
    ("descriptor without its stage", &["add.s64 %rd_a, %rd_desc_a"], Swap("%rd_t", "0")),
    ("k step of a descriptor", &["add.s64 %rd_b_k, %rd_b, 128"], Swap("128", "64")),
    ("drop a cluster arrive", &["barrier.cluster.arrive"], Drop),
    ("drop a cluster wait", &["barrier.cluster.wait"], Drop),
    ("release only in one block", &["setp.lt.u32 %p_release"], Scale("%r_lane, ", 1, 2, 0)),
    ("release in the same block twice", &["and.b32 %r_t, %r_lane, 1"], Swap("%r_lane, 1", "%r_lane, 0")),
    ("tile two columns off", &["add.u32 %r_outer, %r_b_k0"], Scale("%r_b_k0, ", 1, 1, 2)),
    ("block stride one row off", &["add.u32 %r_a_row, %r_a_row,"], Scale("%r_a_row, %r_a_row, ", 1, 1, 1)),
    ("stages overlap", &["mad.lo.u32 %r_stage_at"], Scale("%r_stage, ", 1, 2, 0)),
    ("B lands beside its place", &["add.u32 %r_box_at, %r_part_at,"], Scale("%r_part_at, ", 1, 1, 1024)),
    ("staging without the swizzle", &["xor.b32 %r_chunk_at"], Drop),
    ("stmatrix writes its neighbour", &["stmatrix"], Swap("x4.shared", "x4.trans.shared")),
    ("consumers ask for more registers than there are", &["setmaxnreg.inc"], Scale("u32 ", 1, 1, 8)),
    ("producers give no registers back", &["setmaxnreg.dec"], Drop),
    ("store a box too far", &["add.u32 %r_store_inner"], Scale("%r_out_col, ", 1, 1, 8)),
    ("both halves of a store", &["add.u32 %r_dst, %r_staging,"], Swap("%r_dst, %r_staging", "%r_dst, %r_smem")),
    ("next item not fetched", &["add.s64 %rd_item, %rd_item, %rd_item_stride"], Drop),
    ("items end too early", &["setp.gt.u32 %p_more"], Scale("%r_items, ", 1, 1, 7)),
];

/// A build without optimisation takes one mutant in so many; `cargo test --release` takes all.
const ONE_IN: usize = if cfg!(debug_assertions) { 20 } else { 1 };

/// Applications of one rule to one kernel.
const MOST: usize = 6;

/// Statements with their text, comments and blank lines kept as they are.
fn statements(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let code = line.trim();
        let starts = !open;
        let instruction = code.starts_with('@') || code.chars().next().is_some_and(|c| c.is_ascii_lowercase());
        if starts {
            out.push(line.to_owned());
            open = instruction && !code.ends_with(';');
        } else {
            let last = out.len() - 1;
            out[last].push('\n');
            out[last].push_str(line);
            open = !code.ends_with(';');
        }
    }
    out
}

fn is_instruction(s: &str) -> bool {
    let s = s.trim();
    s.ends_with(';') && !s.starts_with('.') && !s.starts_with("//")
}

fn scale(s: &str, after: &str, times: u64, over: u64, plus: i64) -> Option<String> {
    let at = s.rfind(after)? + after.len();
    let digits = s[at..].chars().take_while(char::is_ascii_digit).count();
    let n: i64 = s[at..at + digits].parse().ok()?;
    let new = n * times as i64 / over as i64 + plus;
    (new != n && new >= 0).then(|| format!("{}{new}{}", &s[..at], &s[at + digits..]))
}

/// All mutants of a text: (name with line, text).
fn mutants(text: &str) -> Vec<(String, String)> {
    let all = statements(text);
    let mut out = Vec::new();
    for (name, pieces, change) in RULES {
        let mut nth = 0;
        for (i, s) in all.iter().enumerate() {
            if nth == MOST || !is_instruction(s) || !pieces.iter().all(|p| s.contains(p)) {
                continue;
            }
            let mut new = all.clone();
            match *change {
                Drop => new[i] = String::new(),
                Swap(from, to) => {
                    if !s.contains(from) {
                        continue;
                    }
                    new[i] = s.replace(from, to);
                }
                Scale(after, times, over, plus) => match scale(s, after, times, over, plus) {
                    Some(t) => new[i] = t,
                    None => continue,
                },
                Delay(places) => {
                    let after = (i + 1..new.len()).filter(|j| is_instruction(&new[*j])).nth(places - 1);
                    match after {
                        Some(j) => new.swap(i, j),
                        None => continue,
                    }
                }
            }
            nth += 1;
            out.push((format!("{name} #{nth}"), new.join("\n")));
        }
    }
    out
}

/// Runs one mutant until something is noticed.
fn found(plan: &bsr_codegen::Plan, text: &str, entry: &str, case: &Case) -> Option<String> {
    let runs = [
        (Schedule::Scrambled, 1),
        (Schedule::Late, 0),
        (Schedule::Early, 0),
        (Schedule::Scrambled, 2),
        (Schedule::Scrambled, 3),
    ];
    for (schedule, seed) in runs {
        let options = Options { seed, schedule, max_steps: 2_000_000, max_findings: 3, ..Options::default() };
        let done = run(plan, text, entry, case, &options);
        if let Some(f) = done.report.findings.first() {
            return Some(format!("{:?}", f.kind));
        }
        if done.error > tolerance(plan) {
            return Some("wrong result".into());
        }
    }
    None
}

fn kill(spec: &str, case: &Case, harmless: &[(&str, &str)]) {
    let plan = plan(spec);
    let ptx = plan.ptx();
    assert_eq!(found(&plan, ptx.text(), ptx.entry(), case), None, "the kernel itself");
    let mut by_kind: BTreeMap<String, usize> = BTreeMap::new();
    let mut survivors = Vec::new();
    let all = mutants(ptx.text());
    assert!(all.len() >= 25, "{} mutants", all.len());
    for (name, text) in all.iter().step_by(ONE_IN) {
        match found(&plan, text, ptx.entry(), case) {
            Some(how) => {
                println!("{name:60} {how}");
                *by_kind.entry(how).or_default() += 1;
            }
            None => survivors.push(name.clone()),
        }
    }
    println!("{spec}: {} mutants, found by {by_kind:?}; survivors {survivors:#?}", all.len());
    for (name, _) in harmless.iter().take(if ONE_IN == 1 { harmless.len() } else { 0 }) {
        assert!(survivors.iter().any(|s| s.starts_with(name)), "{name} is noticed: it does not belong in the list");
    }
    survivors.retain(|s| !harmless.iter().any(|(name, _)| s == name || s.starts_with(&format!("{name} #"))));
    assert!(survivors.is_empty(), "mutants that nobody noticed: {survivors:#?}");
}

/// A fence between the barrier and the copy lies on the causality path as well: every thread executes it.
const FENCE_AFTER: (&str, &str) = ("proxy fence after the barrier", "the ISA wants a proxy fence anywhere on the path");
/// Registers that only the tensor core touches need no wgmma.fence between its operations.
const FENCE_BETWEEN: &str = "no thread touches the accumulators between these operations";

#[test]
fn mutants_of_a_cluster_of_two() {
    let wraps = "4 stages and 2 steps a block: the ring never ends at a first step";
    let harmless = [
        FENCE_AFTER,
        ("drop wgmma.fence #2", FENCE_BETWEEN),
        ("drop wgmma.fence #3", FENCE_BETWEEN),
        ("drop wgmma.fence #4", FENCE_BETWEEN),
        ("never flip the parity #1", wraps),
        ("never flip the parity #3", wraps),
        ("never flip the parity #5", wraps),
        ("ring of one stage more #1", wraps),
        ("ring of one stage more #3", wraps),
        ("ring of one stage more #5", wraps),
    ];
    // Three tiles a cluster, ten stages each: the ring ends at every place where it can.
    kill("bm = 512, bn = 128, bk = 112, cluster = 2", &Case::new(1024, 384, 784, Pattern::TopK(5)), &harmless);
}

#[test]
fn mutants_of_a_single_block() {
    let mut case = Case::new(512, 384, 512, Pattern::TopK(5));
    case.clusters = 4;
    let harmless = [FENCE_AFTER, ("drop wgmma.fence #2", FENCE_BETWEEN)];
    kill("bm = 128, bn = 128, bk = 64, cluster = 1, out = f32", &case, &harmless);
}
