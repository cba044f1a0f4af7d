//! Mutants of the kernels that list work on a GPU.

use std::sync::Arc;

use bsr_codegen::Plan;
use bsr_runtime::simulated::lists::{ListKernels, faults_of_checks, faults_of_lists};

use crate::families::{MOST_OF_CLASS, planned};
use crate::heldout::operands;
use crate::hunt::{self, Prey};
use crate::operators::{self, Change, join, parts};
use crate::trial;

/// Kernels that between them read the lists of every kernel that makes some.
const LISTED: &[&str] = &[
    "bm = 64, bn = 64, bk = 64",
    "bm = 128, bn = 64, bk = 64, cluster = 2",
    "bm = 64, bn = 64, bk = 64, op = dds",
    "bm = 64, bn = 64, bk = 64, split = 3",
    "bm = 64, bn = 64, bk = 64, swap = off, pack = 2",
    "bm = 64, bn = 64, bk = 64, op = sdd",
];

/// Kernels that list work and whose lists are compared with the host's here, by their names in the module.
const LISTING: &[&str] = &[
    "bsr_lists_check_i32",
    "bsr_lists_check_i64",
    "bsr_lists_mask_rows",
    "bsr_lists_mask_columns",
    "bsr_lists_count_columns",
    "bsr_lists_scan_columns",
    "bsr_lists_scatter_columns",
    "bsr_lists_sddmm_rows",
    "bsr_lists_sddmm_tiles",
];

/// Warp instructions after which a kernel that lists work is stopped.
const STEPS: u64 = 2_000_000;

/// Off-by-ones of kernels that list work.
const OPERATORS: &[(&str, Change)] = &[
    ("or equal", |_, s| compare(s, &[(".lt.", ".le."), (".gt.", ".ge.")])),
    ("and equal", |_, s| compare(s, &[(".ge.", ".gt."), (".le.", ".lt.")])),
    ("one more", |_, s| last(s, &["add.u32", "add.s32"], 1)),
    ("compare with one more", |_, s| last(s, &["setp."], 1)),
    ("one block further", |_, s| last(s, &["add.s64", "add.u64"], 4)),
];

fn compare(s: &str, pairs: &[(&str, &str)]) -> Option<String> {
    let p = parts(s).filter(|p| p.opcode.starts_with("setp."))?;
    let (from, to) = pairs.iter().find(|(from, _)| p.opcode.contains(from))?;
    Some(join(&p, &p.opcode.replacen(from, to, 1), p.operands))
}

fn last(s: &str, opcodes: &[&str], more: i64) -> Option<String> {
    let p = parts(s).filter(|p| opcodes.iter().any(|opcode| p.opcode.starts_with(opcode)))?;
    let mut list = operands(p.operands);
    let number: i64 = list.get(2)?.parse().ok()?;
    list[2] = (number + more).to_string();
    Some(join(&p, p.opcode, &list.join(", ")))
}

/// Mutants that change nothing.
struct Harmless {
    /// The kernel, by words of its name.
    kernel: &'static str,
    /// The label before the statement; any if it is empty.
    section: &'static str,
    operator: &'static str,
    /// Words of the statement, any of these.
    words: &'static [&'static str],
    why: &'static str,
}

const HARMLESS: &[Harmless] = &[
    Harmless {
        kernel: "check",
        section: "",
        operator: "or equal",
        words: &[
            "%p_after1, %r_index1",
            "%p_after2, %r_index2",
            "%p_after3, %r_index3",
            "%p_after4, %r_index4",
            "%p_after5, %r_index5",
            "%p_after6, %r_index6",
            "%p_after7, %r_index7",
        ],
        why: "the columns of a lane's later loads are at least 32 behind the first one of their row",
    },
    Harmless {
        kernel: "",
        section: "",
        operator: "and equal",
        words: &["%r_at, %r_end", "%r_start, %r_blocks", "%r_start, %r_block_columns", "%r_batch, %r_block_rows"],
        why: "one more round of the loop, in which no lane has a column, a block or a row",
    },
    Harmless {
        kernel: "scatter",
        section: "$batch:",
        operator: "and equal",
        words: &["%r_row, %r_last"],
        why: "one more batch, all rows of which are behind the last one: their lengths are 0",
    },
    Harmless {
        kernel: "sddmm_tiles",
        section: "$groups:",
        operator: "or equal",
        words: &["%p_t, %r_of, %r_column_groups"],
        why: "only the other words of a vector can be the padding of a work tile",
    },
    Harmless {
        kernel: "check",
        section: "",
        operator: "compare with one more",
        words: &["%p_t, %r_lane, 0"],
        why: "all lanes of the warp have the ends of its row, and one of them stores what follows from these",
    },
    Harmless {
        kernel: "mask",
        section: "",
        operator: "compare with one more",
        words: &["%p_t, %r_lane, 0", "%p_lead, %r_lane, 0"],
        why: "all lanes of the warp have the sum, and one of them stores it",
    },
    Harmless {
        kernel: "scan_columns",
        section: "$band:",
        operator: "compare with one more",
        words: &["%p_t, %r_warp, 31"],
        why: "no warp has a number above 31",
    },
    Harmless {
        kernel: "scan_columns",
        section: "$band:",
        operator: "compare with one more",
        words: &["%p_in, %r_warp, 0, %p_in"],
        why: "every warp has the sums of the columns, and one of them stores these",
    },
    Harmless {
        kernel: "scan_columns",
        section: "$band:",
        operator: "or equal",
        words: &["%r_band, %r_ctas"],
        why: "one more round of the loop, in which all lines are behind those of the CTAs",
    },
];

/// What finds them: the check of patterns, the lists of the host, and products by their lists.
#[test]
#[ignore = "a measure: cargo test --release -p bsr-simulator --test mutants -- --ignored --nocapture class"]
fn mutants_of_the_class_of_kernels_that_list_work_are_found() {
    let plans: Vec<Plan> = LISTED.iter().map(|spec| planned(spec)).collect();
    let checked: Vec<_> = plans.iter().map(|plan| (plan, trial::listed(plan))).collect();
    // What the kernel itself is meant to do first: the first fault suffices.
    let judge = |kernel: &str, text: &str| -> Option<String> {
        let kernels = match ListKernels::new(text) {
            Ok(kernels) => Arc::new(kernels.limited(STEPS)),
            Err(error) => return Some(format!("unreadable: {error}")),
        };
        let checks = || Some(faults_of_checks(&kernels).next()?.unwrap_or_else(|error| error.to_string()));
        let lists = || Some(faults_of_lists(&kernels).next()?.unwrap_or_else(|error| error.to_string()));
        let products = || checked.iter().find_map(|(plan, problem)| trial::check_lists(plan, problem, &kernels));
        let arrays = if kernel.contains("check") { checks().or_else(lists) } else { lists().or_else(checks) };
        arrays.or_else(products)
    };
    let text = bsr_codegen::lists::ptx();
    assert_eq!(judge("", text), None, "the kernels themselves");
    let prepare = |kernel| prey(kernel, move |text: &str| judge(kernel, text));
    hunt::all_are_found(&[hunt::hunt("kernels that list work", LISTING, hunt::one_in(1), prepare)]);
}

/// A kernel of the module with its mutants.
fn prey<'k>(kernel: &'k str, judge: impl Fn(&str) -> Option<String> + Send + Sync + 'k) -> Prey<'k> {
    let text = bsr_codegen::lists::ptx();
    let from = text.find(&format!("entry {kernel}(")).unwrap();
    let to = text[from..].find("\n}").map_or(text.len(), |end| from + end);
    let body = &text[from..to];
    let whole = |(name, body): (String, String)| (name, format!("{}{body}{}", &text[..from], &text[to..]));
    let mutants = operators::mutants(body, OPERATORS, MOST_OF_CLASS).into_iter().map(whole).collect();
    let why = move |name: &str| {
        let section = section(body, name);
        let fits = |rule: &&Harmless| {
            kernel.contains(rule.kernel)
                && (rule.section.is_empty() || section == rule.section)
                && name.starts_with(rule.operator)
                && rule.words.iter().any(|words| name.contains(words))
        };
        HARMLESS.iter().find(fits).map(|rule| rule.why)
    };
    Prey { spec: kernel, mutants, judge: Box::new(judge), why: Box::new(why) }
}

/// The last label before the statement that a mutant's name has.
fn section<'t>(text: &'t str, name: &str) -> &'t str {
    let line = name.split(" @ ").nth(1).and_then(|at| at.split(':').next()?.parse().ok()).unwrap_or(0);
    text.lines().take(line).filter(|line| line.starts_with('$')).last().unwrap_or_default()
}
