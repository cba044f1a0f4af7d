//! What can be wrong with a file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bsr_codegen::Refusal;
use thiserror::Error;

/// Why a file was refused: which file, where in it, the fact, and what to do.
pub struct ReadError {
    file: PathBuf,
    place: Place,
    problem: ReadProblem,
}

bsr_codegen::message_as_debug!(ReadError);

/// Where in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The file as a whole.
    Whole,
    /// A line of a text file, counted from 1.
    Line(usize),
    /// A member of an archive.
    Member(&'static str),
}

impl ReadError {
    pub(super) fn new(file: &Path, place: Place, problem: impl Into<ReadProblem>) -> Self {
        Self { file: file.to_path_buf(), place, problem: problem.into() }
    }

    /// The file, as it was named to the reader.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The line of a text file, counted from 1, where there is one to name.
    pub fn line(&self) -> Option<usize> {
        match self.place {
            Place::Line(line) => Some(line),
            Place::Whole | Place::Member(_) => None,
        }
    }

    /// What is wrong.
    pub fn problem(&self) -> &ReadProblem {
        &self.problem
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.place {
            Place::Whole => {}
            Place::Line(line) => write!(f, ":{line}")?,
            Place::Member(member) => write!(f, "/{member}.npy")?,
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

/// What is wrong with a file.
#[derive(Error)]
#[non_exhaustive]
pub enum ReadProblem {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Anything else: a format or a kind of file that is not read, content that is not what the format says or does not fit
    /// memory, a choice among several arrays, or no blocks of this size and type.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

bsr_codegen::message_as_debug!(ReadProblem);

impl ReadProblem {
    /// Not what the format says, or a kind of file that is not read: what it is, and what would be read.
    pub(super) fn refused(fact: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(fact).help(help))
    }

    /// A file with several arrays, of which none or a wrong one was named.
    pub(super) fn choose(fact: &str, names: &[String]) -> Self {
        Self::refused(fact, listed(names))
    }

    /// The same of a part of a file.
    pub(super) fn within(self, part: &str) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.within(part)),
            error => error,
        }
    }
}

/// The matrices that could have been named, if there are any.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 24;
    if names.is_empty() {
        return "the file must hold a matrix of f16, bf16, f32 or f64".to_owned();
    }
    let more = names.len().saturating_sub(SHOWN);
    let mut text = "name one of these:".to_owned();
    names.iter().take(SHOWN).for_each(|name| text.push_str(&format!("\n  {name}")));
    if more > 0 {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}
