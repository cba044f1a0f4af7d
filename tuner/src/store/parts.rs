//! Runs, rows that cannot be read, and the memory that rows take.

use std::path::Path;

use bsr_codegen::Refusal;
use bsr_runtime::read::memory_available;
use jiff::Timestamp;
use serde::Serialize;

use super::error;

/// What a command asks for, as it begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// When it began.
    pub started: Timestamp,
    /// Version of this project.
    pub version: String,
    /// The command line.
    pub command: String,
    /// The space by its name, its file, or its lists.
    pub space: String,
    /// Digest of the space's points.
    pub space_digest: String,
    /// What was asked, in words: the problems, the strategy, the limits.
    pub asked: String,
}

impl Run {
    /// A command that begins now.
    pub fn now(command: String, space: String, space_digest: String, asked: String) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { started: Timestamp::now(), version, command, space, space_digest, asked }
    }
}

/// Names a run in one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunId(pub(super) i64);

/// A run as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// What it asked for.
    pub run: Run,
    /// When it ended; none while it goes on, and of one that was killed.
    pub ended: Option<Timestamp>,
    /// How it ended: `complete`, `limit`, `budget`, `stopped`, or an error.
    pub how: Option<String>,
    /// Points that never became kernels, by reason, the most frequent first.
    pub rejections: Vec<Rejection>,
}

/// Points of one problem that never became kernels, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The [key](crate::TuningProblem::key) of the problem that they would have been for.
    pub problem: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub points: usize,
}

/// How the reason begins of points that a run ended before.
const UNSEEN: &str = "not looked at";

impl Rejection {
    /// Points of a problem that a run did not come to.
    pub fn unseen(problem: String, ended: &str, points: usize) -> Self {
        Self { problem, reason: format!("{UNSEEN}: the sweep ended before ({ended})"), points }
    }

    /// Whether these points were not looked at: a later run may.
    pub fn is_unseen(&self) -> bool {
        self.reason.starts_with(UNSEEN)
    }
}

/// A row that cannot be read. It is left where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The table that it is in.
    pub table: &'static str,
    /// Its number there.
    pub row: i64,
    /// What is wrong with it.
    pub why: String,
}

/// Rows between two looks at the memory that is left.
const ROWS: usize = 256;

/// Counts rows that are read into memory: what is made of them takes as much again.
pub(super) struct Room<'p> {
    path: &'p Path,
    least: Option<u64>,
    rows: usize,
}

impl<'p> Room<'p> {
    pub(super) fn new(path: &'p Path) -> Self {
        Self { path, least: memory_available().map(|bytes| bytes / 2), rows: 0 }
    }

    /// One more row.
    ///
    /// # Errors
    /// More rows than there is memory for.
    pub(super) fn row(&mut self) -> Result<(), Refusal> {
        self.rows += 1;
        if !self.rows.is_multiple_of(ROWS) {
            return Ok(());
        }
        match self.least.zip(memory_available()) {
            Some((least, left)) if left < least => {
                let (rows, left) = (self.rows, left as f64 / 1e9);
                let fact = format_args!(
                    "{rows} rows were read, and half of this machine's memory is used ({left:.1} GB are left)"
                );
                Err(error::of(self.path, fact).help("split the database, or read it where there is more"))
            }
            _ => Ok(()),
        }
    }
}
