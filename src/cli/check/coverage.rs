//! What no problem of a check has executed, and why.

use std::fmt::Write as _;
use std::io::Write;

use bsr::simulated::Statement;
use bsr::{Plan, Schedule};

use super::super::exit::Failure;
use super::super::line;

/// Statements that are printed one by one.
const MOST_PRINTED: usize = 20;

/// A statement that was not executed, and why.
struct Missed<'s> {
    statement: &'s Statement,
    why: Option<&'static str>,
}

fn missed<'s>(statements: &'s [(Statement, bool)], plan: &Plan) -> Vec<Missed<'s>> {
    let number = |at: usize| Missed {
        statement: &statements[at].0,
        why: reason(&statements[at].0, at.checked_sub(1).map(|before| &statements[before].0), plan),
    };
    (0..statements.len()).filter(|at| !statements[*at].1).map(number).collect()
}

/// Prints how many instructions were executed, and those that were not, grouped by section.
pub(super) fn show(statements: &[(Statement, bool)], plan: &Plan, out: &mut dyn Write) -> Result<(), Failure> {
    let missed: Vec<Missed<'_>> = missed(statements, plan);
    let mut text = format!("{} of {} instructions", statements.len() - missed.len(), statements.len());
    if !missed.is_empty() {
        text.push_str("; no problem executes the others");
    }
    let unknown = missed.iter().filter(|missed| missed.why.is_none()).count();
    if unknown > 0 {
        let _ = write!(text, ", {unknown} of them without a known reason");
    }
    // What has no reason first.
    let ordered = missed.iter().filter(|m| m.why.is_none()).chain(missed.iter().filter(|m| m.why.is_some()));
    let mut last = None;
    for Missed { statement, why } in ordered.take(MOST_PRINTED) {
        if last != Some((&statement.section, *why)) {
            let section = statement.section.as_deref().unwrap_or("the beginning");
            let words = why.unwrap_or("no reason is known: a problem for it is missing");
            let _ = write!(text, "\n            {words}; in section: {section}");
            last = Some((&statement.section, *why));
        }
        let _ = write!(text, "\n              line {}: {}", statement.line, statement.text);
    }
    if missed.len() > MOST_PRINTED {
        let _ = write!(text, "\n            and {} more", missed.len() - MOST_PRINTED);
    }
    Ok(line(out, "coverage", text)?)
}

/// Why no problem can execute a statement, of one kind after the other.
type Reason = (fn(&Statement, Option<&Statement>, &Plan) -> bool, &'static str);

const REASONS: &[Reason] = &[
    (
        |at, _, _| at.text.starts_with("@%p_t xor.b32"),
        "the ring of stages never ends at this place: a block takes a divisor of its stages",
    ),
    (
        |at, before, _| at.text.contains(" bra ") && before.is_some_and(|before| before.text.contains("try_wait")),
        "the wait before it is for a phase that an earlier wait has seen complete",
    ),
    (|at, _, _| goes_to(at, "$exit") || goes_to(at, "$leave"), "every CTA of a launch has work, and C has columns"),
    (
        |at, _, _| at.text.contains(" bra ") && at.text.ends_with("_first_0;"),
        "a CTA that has work has a first record, and it is the first of its item",
    ),
    (
        |at, _, _| goes_to(at, "$store_tail") || in_section(at, &["A tile shorter than the store"]),
        "a tile of one block has as many stages as the store of a tile has passes",
    ),
    (|at, _, _| at.text.starts_with("@%p_t") && goes_to(at, "$stage"), "a block is one stage"),
    (
        |at, _, _| goes_to(at, "$index_batch_whole") || goes_to(at, "$block_whole"),
        "the ring is filled from one batch of indices, and by whole blocks",
    ),
    (
        |_, _, plan| plan.sddmm_tiles().is_some() && plan.spec().schedule != Some(Schedule::Balanced),
        "the K of a tile is shared between CTAs with schedule = balanced alone",
    ),
    (
        |at, _, plan| plan.sddmm_tiles().is_some() && in_section(at, &["A part of a tile's K"]),
        "parts come first in a CTA's list, before the ring of items ends",
    ),
];

fn goes_to(statement: &Statement, label: &str) -> bool {
    let target = statement.text.split_once("bra").map_or("", |(_, target)| target);
    target.split_whitespace().last().is_some_and(|target| target.starts_with(label))
}

fn in_section(statement: &Statement, beginnings: &[&str]) -> bool {
    statement.section.as_ref().is_some_and(|section| beginnings.iter().any(|words| section.starts_with(words)))
}

/// Why no problem can execute a statement.
fn reason(statement: &Statement, before: Option<&Statement>, plan: &Plan) -> Option<&'static str> {
    REASONS.iter().find(|(applies, _)| applies(statement, before, plan)).map(|(_, why)| *why)
}
