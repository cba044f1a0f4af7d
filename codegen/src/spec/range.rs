//! Ranges of numbers: `3..=5` and `3..6`.

use std::ops::RangeInclusive;

use super::SpecErrorKind;
use super::number::positive;
use super::value::Atom;

/// Most kernels that the lists of one family may make.
pub const MOST_MEMBERS: usize = 256;

/// How a range is written: with its last number or without.
pub(super) fn operator(inclusive: bool) -> &'static str {
    if inclusive { "..=" } else { ".." }
}

/// The numbers of a range, in order; at least one, and no more than a family has members.
///
/// # Errors
/// Ends that are no positive integers, and ranges that run backwards, are empty or too long.
pub(super) fn numbers(
    key: &str,
    first: &Atom,
    last: &str,
    inclusive: bool,
) -> Result<RangeInclusive<u32>, SpecErrorKind> {
    let operator = operator(inclusive);
    let first_text = match first {
        Atom::Number(text) => text.clone(),
        other => other.describe().replace('`', ""),
    };
    let error = |fact: String, help: String| {
        let message = format!("`{key} = {first_text}{operator}{last}` {fact}");
        Err(SpecErrorKind::Syntax { message, help: Some(help) })
    };
    let ends = match first {
        Atom::Number(text) => positive(text).ok().zip(positive(last).ok()),
        _ => None,
    };
    let Some((from, to)) = ends else {
        let help = "the ends of a range are positive integers".into();
        return error("is no range of numbers".into(), help);
    };
    if from > to {
        let fact = format!("runs backwards: {from} is greater than {to}");
        return error(fact, format!("write `{key} = {to}{operator}{from}`"));
    }
    if from == to && !inclusive {
        let help = format!("write `{key} = {from}..={to}` with the last number, or `{key} = {from}`");
        return error("is empty: `..` leaves the last number out".into(), help);
    }
    let to = if inclusive { to } else { to - 1 };
    let count = u64::from(to - from) + 1;
    if count > MOST_MEMBERS as u64 {
        let fact = format!("is too long: {to} - {from} + 1 = {count} kernels, a family has at most {MOST_MEMBERS}");
        return error(fact, "list the numbers that matter".into());
    }
    Ok(from..=to)
}
