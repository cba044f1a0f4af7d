//! What no problem of a check has executed, and why.

use std::fmt::Write as _;
use std::io::Write;

use bsr::Plan;
use bsr::simulated::Statement;
use bsr_trial::reasons::missed;

use super::super::exit::Failure;
use super::super::line;

/// Statements that are printed one by one.
const MOST_PRINTED: usize = 20;

/// Prints how many instructions were executed, and those that were not, grouped by section.
pub(super) fn show(statements: &[(Statement, bool)], plan: &Plan, out: &mut dyn Write) -> Result<(), Failure> {
    let missed = missed(statements, plan);
    let mut text = format!("{} of {} instructions", statements.len() - missed.len(), statements.len());
    if !missed.is_empty() {
        text.push_str("; no problem executes the others");
    }
    let unknown = missed.iter().filter(|(_, why)| why.is_none()).count();
    if unknown > 0 {
        let _ = write!(text, ", {unknown} of them without a known reason");
    }
    // What has no reason first.
    let ordered = missed.iter().filter(|(_, why)| why.is_none()).chain(missed.iter().filter(|(_, why)| why.is_some()));
    let mut last = None;
    for (statement, why) in ordered.take(MOST_PRINTED) {
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
