//! What a trace is had from: a SPEC, or the file of a trace.

use std::path::{Path, PathBuf};

use bsr_tuner::{TraceOf, Workload};
use serde_json::Value;

use super::super::exit::Failure;
use super::super::{input, spec};

/// A SPEC argument, or the path of a file that `bsr trace` wrote.
pub(super) enum Side {
    Spec(String),
    File(PathBuf),
}

impl Side {
    /// A file's name has no `=`, unless there is such a file, and does not end as a SPEC's does.
    pub(super) fn of(argument: &str) -> Self {
        let is_spec = spec::is_named(argument) || argument.contains('=') && !Path::new(argument).is_file();
        if is_spec { Self::Spec(argument.to_owned()) } else { Self::File(argument.into()) }
    }
}

/// A trace that a file holds.
pub(in super::super) fn read(path: &Path) -> Result<Value, Failure> {
    serde_json::from_str(&input::text(path)?).map_err(|error| unreadable(path, &error))
}

/// The same words for whatever is wrong with a file.
pub(in super::super) fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::bad_input(format!("{}: {why}", path.display()))
}

/// What a trace is of, in words; nothing of an earlier version's.
pub(super) fn words(trace: &Value) -> Option<String> {
    TraceOf::read(trace).map(|of| of.words())
}

/// A problem in words.
pub(in super::super) fn problem_words(workload: &Workload) -> String {
    let Workload { facts, m, n, k, source, seed } = workload;
    format!("{m} x {n} x {k}, {source}, seed {seed} ({facts})")
}
