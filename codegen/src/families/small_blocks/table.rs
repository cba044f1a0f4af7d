//! The summary and the table of a plan of this family.

use super::plan::SmallBlocksPlan;
use crate::KernelSpec;

type Row = [String; 3];

fn row(what: &str, value: String, why: String) -> Row {
    [what.to_owned(), value, why]
}

pub(super) fn summary(plan: &SmallBlocksPlan) -> String {
    let KernelSpec { bm, bk, bn, .. } = plan.spec;
    let (groups, lanes, slots, in_flight) = (plan.groups(), plan.lanes, plan.slots(), plan.in_flight());
    if plan.is_together() {
        return format!(
            "{groups} block rows a CTA, read together: {in_flight} x {slots} blocks of {bm} x {bk} at once, {bn} column(s)"
        );
    }
    format!(
        "{groups} block rows a CTA, each of {lanes} threads: {in_flight} x {slots} blocks of {bm} x {bk} at once, \
         {bn} column(s)"
    )
}

pub(super) fn rows(plan: &SmallBlocksPlan) -> Vec<Row> {
    let KernelSpec { bm, bk, a, .. } = plan.spec;
    let block = bm * plan.row_bytes();
    let first = row("sparsity block", format!("{bm} x {bk}"), format!("{a} values, {block} B a block, 4 B its column"));
    let others = if plan.is_together() { together(plan) } else { groups(plan) };
    std::iter::once(first).chain(others).collect()
}

fn loads(plan: &SmallBlocksPlan) -> [Row; 2] {
    let KernelSpec { bm, bk, a, b, .. } = plan.spec;
    let load = plan.a_load * a.bytes();
    [
        match plan.is_transposed() {
            true => row("loads of A", format!("{} B", a.bytes()), format!("{bm} are a column of a block, its row")),
            false => {
                row("loads of A", format!("{load} B"), format!("{} of {load} B are a row of a block", bk / plan.a_load))
            }
        },
        row("loads of B", format!("{} B", plan.b_load * b.bytes()), format!("where a block is whole; {b}")),
    ]
}

/// Of groups of threads that serve a block row.
fn groups(plan: &SmallBlocksPlan) -> Vec<Row> {
    let KernelSpec { bm, bn, acc, .. } = plan.spec;
    let (lanes, slots, groups, threads) = (plan.lanes, plan.slots(), plan.groups(), plan.threads());
    let (block, in_flight) = (bm * plan.row_bytes(), plan.in_flight());
    let [of_a, of_b] = loads(plan);
    vec![
        row(
            "threads of a row",
            lanes.to_string(),
            format!("{slots} = {lanes} / {} blocks at once, a row of each", plan.rows()),
        ),
        row("CTA", format!("{threads} threads"), format!("{groups} = {threads} / {lanes} block rows")),
        of_a,
        of_b,
        row(
            "in flight",
            format!("{in_flight} blocks a thread"),
            format!("{} B of values a group", in_flight * slots * block),
        ),
        row("sums", format!("{bn} a thread"), format!("fma.rn.{acc}, then shuffles over {slots} blocks")),
        row("shared memory", "0 B".to_owned(), "nothing is shared but through shuffles".to_owned()),
    ]
}

/// Of a CTA that reads the blocks of all its rows together.
fn together(plan: &SmallBlocksPlan) -> Vec<Row> {
    let KernelSpec { bm, bn, acc, .. } = plan.spec;
    let (slots, threads, in_flight, shared) = (plan.slots(), plan.threads(), plan.in_flight(), plan.shared_bytes());
    let [of_a, of_b] = loads(plan);
    vec![
        row("CTA", format!("{threads} threads"), format!("{slots} = {threads} / {bm} block rows, read together")),
        of_a,
        of_b,
        row(
            "in flight",
            format!("{in_flight} blocks a thread"),
            format!("{} B of values a CTA", in_flight * slots * bm * plan.row_bytes()),
        ),
        row("sums", format!("{bn} a thread"), format!("fma.rn.{acc} in a block, then a thread adds up a row of C")),
        row(
            "shared memory",
            format!("{shared} B"),
            format!("products of {} rows of blocks, {} B each", in_flight * slots * bm, bn * acc.bytes()),
        ),
    ]
}
