//! What the runs have found: each defect once, with the schedules that showed it and where it comes from.

use std::collections::BTreeSet;

use bsr_simulator::{Finding, Module, Origin, Side};
use serde::Deserialize;

use super::classes::{Class, Level, class_of, classes};
use crate::Failure;

/// A finding that is accepted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// A line of the PTX, or `file:line` of the source.
    pub line: Line,
    /// Only findings of this class.
    pub class: Option<String>,
    /// Why.
    pub reason: String,
}

/// A line of the PTX, or of the source.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Line {
    Text(u32),
    Source(String),
}

/// A defect, or what looks like one.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What it is.
    pub class: Class,
    /// The fact in words.
    pub message: String,
    /// The instructions that take part.
    pub places: Vec<Place>,
    /// The schedules that showed it, in words.
    pub schedules: Vec<String>,
    /// How often, over all of them.
    pub times: u64,
    /// Lines of further instructions from the same places of the source: of a loop that was unrolled, for instance.
    pub also: BTreeSet<u32>,
    /// Why it is accepted, if it is.
    pub allowed: Option<String>,
}

/// An instruction that takes part.
#[derive(Clone, Debug)]
pub struct Place {
    /// The instruction, and who executes it.
    pub side: Side,
    /// Where it comes from, if the text tells.
    pub origin: Option<Origin>,
}

impl Problem {
    /// Whether the command fails for it.
    pub fn counts(&self) -> bool {
        self.class.level == Level::Error && self.allowed.is_none()
    }
}

/// Whether two instructions are one, or were compiled from one place of the source.
fn same(one: &Place, other: &Place) -> bool {
    one.side.line == other.side.line || one.origin.is_some() && one.origin == other.origin
}

/// Sides that are kept: a deadlock has one for every group of threads that waits.
const MOST_SIDES: usize = 8;

/// Adds what one run has found.
pub(super) fn add(all: &mut Vec<Problem>, found: Vec<Finding>, schedule: &str, (module, clusters): (&Module, bool)) {
    for finding in found {
        let class = class_of(&finding, clusters);
        let (more, mut sides) = (finding.sides.len().saturating_sub(MOST_SIDES), finding.sides);
        sides.truncate(MOST_SIDES);
        let place = |side: Side| Place { origin: module.origin(side.line), side };
        let places: Vec<Place> = sides.into_iter().map(place).collect();
        let is_known = |problem: &&mut Problem| {
            let pairs = || problem.places.iter().zip(&places);
            problem.class == class
                && problem.places.len() == places.len()
                && pairs().all(|(one, other)| same(one, other))
        };
        if let Some(known) = all.iter_mut().find(is_known) {
            let lines = |places: &[Place]| places.iter().map(|place| place.side.line).collect::<BTreeSet<u32>>();
            let told = lines(&known.places);
            known.also.extend(lines(&places).difference(&told));
            known.times += u64::from(finding.times);
            if !known.schedules.iter().any(|name| name == schedule) {
                known.schedules.push(schedule.to_owned());
            }
            continue;
        }
        let rest = if more == 0 { String::new() } else { format!("; and {more} more groups of threads") };
        all.push(Problem {
            class,
            message: finding.message + rest.as_str(),
            places,
            schedules: vec![schedule.to_owned()],
            times: u64::from(finding.times),
            also: BTreeSet::new(),
            allowed: None,
        });
    }
}

/// Whether a run may have ended before its results were complete.
pub(super) fn is_stopped(found: &[Finding]) -> bool {
    found.iter().any(|finding| class_of(finding, false).level == Level::Error)
}

/// Marks what is accepted. The rules that accept nothing are returned.
pub fn allow<'r>(all: &mut [Problem], rules: &'r [Allow]) -> Vec<&'r Allow> {
    let mut unused: Vec<&Allow> = rules.iter().collect();
    for problem in all {
        if let Some(rule) = rules.iter().find(|rule| accepts(rule, problem)) {
            problem.allowed = Some(rule.reason.clone());
            unused.retain(|other| !std::ptr::eq(*other, rule));
        }
    }
    unused
}

fn accepts(rule: &Allow, problem: &Problem) -> bool {
    let here = |place: &Place| match &rule.line {
        Line::Text(line) => place.side.line == *line,
        Line::Source(wanted) => place.origin.as_ref().is_some_and(|origin| {
            let Some((file, line)) = wanted.rsplit_once(':') else { return false };
            let is =
                |path: &str, at: u32| line.parse() == Ok(at) && (path == file || path.ends_with(&format!("/{file}")));
            is(&origin.file, origin.line) || origin.inlined.iter().any(|(path, at)| is(path, *at))
        }),
    };
    let also = matches!(&rule.line, Line::Text(line) if problem.also.contains(line));
    rule.class.as_ref().is_none_or(|class| class == problem.class.name) && (also || problem.places.iter().any(here))
}

/// `207=a reason`, `kernels.py:12=a reason`, `207:race=a reason`.
///
/// # Errors
/// What is not of this form.
pub fn rule(text: &str) -> Result<Allow, String> {
    let Some((place, reason)) = text.split_once('=').filter(|(_, reason)| !reason.trim().is_empty()) else {
        return Err("write LINE=REASON, for instance `207=the lock is polled`".into());
    };
    let (place, class) = match place.rsplit_once(':') {
        Some((rest, name)) if classes().any(|class| class.name == name) => (rest, Some(name.to_owned())),
        _ => (place, None),
    };
    let line = match place.parse() {
        Ok(line) => Line::Text(line),
        Err(_) if place.rsplit_once(':').is_some_and(|(_, line)| line.parse::<u32>().is_ok()) => {
            Line::Source(place.to_owned())
        }
        Err(_) => return Err(format!("`{place}` is no line of the PTX and no FILE:LINE of the source")),
    };
    Ok(Allow { line, class, reason: reason.trim().to_owned() })
}

/// Rules of a launch file name classes that exist.
///
/// # Errors
/// Bad input: an unknown class, or no reason.
pub fn check(rules: &[Allow]) -> Result<(), Failure> {
    for rule in rules {
        if let Some(name) = rule.class.as_ref().filter(|name| !classes().any(|class| class.name == **name)) {
            let known: Vec<&str> = classes().map(|class| class.name).collect();
            return Err(Failure::bad_input(format!("[[allow]]: there is no class `{name}`; {}", known.join(", "))));
        }
        if rule.reason.trim().is_empty() {
            return Err(Failure::bad_input("[[allow]]: the reason is empty; say why the finding is accepted"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn rules_name_a_line_and_a_reason() {
        let all = rule("207=the lock is polled").unwrap();
        assert_eq!((all.line, all.class), (Line::Text(207), None));
        let one = rule("kernels.py:12:race=equal by design").unwrap();
        assert_eq!((one.line, one.class.as_deref()), (Line::Source("kernels.py:12".into()), Some("race")));
        assert!(rule("207").is_err() && rule("207= ").is_err() && rule("here=x").is_err());
    }
}
