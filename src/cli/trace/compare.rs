//! `bsr trace --compare A B`.

use std::io::Write;
use std::path::Path;

use bsr::timeline::{Summary, compare};

use super::super::exit::{Exit, Failure};
use super::super::input;

/// Prints what each role's time went to in both traces.
///
/// # Errors
/// Bad input: a file that cannot be read or is no trace.
pub(super) fn run(a: &Path, b: &Path, out: &mut dyn Write) -> Result<Exit, Failure> {
    let [a, b] = [a, b].map(summary);
    writeln!(out, "{}", compare(&a?, &b?))?;
    Ok(Exit::Done)
}

fn summary(path: &Path) -> Result<Summary, Failure> {
    let bad = |why: &dyn std::fmt::Display| Failure::new(Exit::BadInput, format!("{}: {why}", path.display()));
    let trace = serde_json::from_str(&input::text(path)?).map_err(|error| bad(&error))?;
    Summary::of_trace(&trace).map_err(|error| bad(&error))
}
