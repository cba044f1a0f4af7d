//! `vector = 1` in words: the summary and the table of a plan of which a thread has one value of a block.

use super::plan::{SmallBlocksPlan, WARP};
use crate::KernelSpec;

pub(super) fn summary(plan: &SmallBlocksPlan) -> String {
    let KernelSpec { bm, bk, .. } = plan.spec;
    let (warps, rows, slots, in_flight) = (plan.threads() / WARP, plan.rows_of_warp(), plan.slots(), plan.in_flight());
    format!(
        "{warps} warps a CTA, each of {rows} block rows: {in_flight} x {slots} blocks of {bm} x {bk} at once, a value a thread"
    )
}

pub(super) fn rows(plan: &SmallBlocksPlan) -> Vec<[String; 3]> {
    let KernelSpec { bm, bk, a, b, acc, .. } = plan.spec;
    let (slots, in_flight, values) = (plan.slots(), plan.in_flight(), plan.threads_of_block());
    let (block, line, warps, rows) =
        (bm * plan.row_bytes(), slots * bm * plan.row_bytes(), plan.threads() / WARP, plan.rows_of_warp());
    let row = |what: &str, value: String, why: String| [what.to_owned(), value, why];
    vec![
        row("sparsity block", format!("{bm} x {bk}"), format!("{a} values, {block} B a block, 4 B its column")),
        row("threads of a block", values.to_string(), format!("{slots} = 32 / {values} blocks side by side, {line} B")),
        row("CTA", format!("{} threads", plan.threads()), format!("{} = {warps} x {rows} block rows", plan.groups())),
        row("loads of A", format!("{} B", a.bytes()), format!("those of a warp are {line} B in a row")),
        row("loads of B", format!("{} B", b.bytes()), format!("one element a thread; {b}")),
        row("in flight", format!("{in_flight} blocks a thread"), format!("{} B of values a warp", in_flight * line)),
        row(
            "sums",
            "1 a thread".to_owned(),
            format!("fma.rn.{acc}, then shuffles over {slots} blocks and {bk} columns"),
        ),
        row("shared memory", "0 B".to_owned(), "nothing is shared but through shuffles".to_owned()),
    ]
}
