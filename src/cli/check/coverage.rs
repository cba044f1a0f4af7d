//! What no problem of a check has executed, and why.

use std::fmt::Write as _;
use std::io::Write;

use bsr::simulated::Statement;

use super::super::exit::Failure;
use super::super::line;

/// Statements that are printed one by one.
const MOST_PRINTED: usize = 20;

/// Prints how many instructions were executed, and those that were not, grouped by section.
pub(super) fn show(statements: &[(Statement, bool)], out: &mut dyn Write) -> Result<(), Failure> {
    let missed: Vec<&Statement> = statements.iter().filter(|(_, executed)| !executed).map(|(at, _)| at).collect();
    let mut text = format!("{} of {} instructions", statements.len() - missed.len(), statements.len());
    if !missed.is_empty() {
        text.push_str("; no problem executes");
    }
    for (at, statement) in missed.iter().take(MOST_PRINTED).enumerate() {
        if at == 0 || missed[at - 1].section != statement.section {
            let section = statement.section.as_deref().unwrap_or("the beginning");
            let _ = write!(text, "\n            in section: {section}");
        }
        let why = reason(statement).unwrap_or("no reason is known: a problem for it is missing");
        let _ = write!(text, "\n              line {}: {} ({why})", statement.line, statement.text);
    }
    if missed.len() > MOST_PRINTED {
        let _ = write!(text, "\n            and {} more", missed.len() - MOST_PRINTED);
    }
    Ok(line(out, "coverage", text)?)
}

/// Why no problem can execute a statement.
pub(super) fn reason(statement: &Statement) -> Option<&'static str> {
    let _ = statement;
    None
}
