//! A reason for which no problem executes a statement, and what statements are known by.

use bsr_codegen::Plan;
use bsr_runtime::simulated::Statement;

/// Why no problem can execute a statement, of one kind after the other.
pub(super) type Reason = (fn(&Statement, Option<&Statement>, &Plan) -> bool, &'static str);

/// Does it branch to a label that begins so?
pub(super) fn goes_to(statement: &Statement, label: &str) -> bool {
    target(statement).is_some_and(|target| target.starts_with(label))
}

/// Where a branch leads to.
pub(super) fn target(statement: &Statement) -> Option<&str> {
    statement.text.split_once("bra").and_then(|(_, target)| target.split_whitespace().last())
}

/// Is it in a section whose comment begins with one of these?
pub(super) fn in_section(statement: &Statement, beginnings: &[&str]) -> bool {
    statement.section.as_ref().is_some_and(|section| beginnings.iter().any(|words| section.starts_with(words)))
}
