//! What can be wrong with a file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{ConvertError, MemoryError};

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
    /// Its name does not say which format it has.
    #[error(
        "{}; the readers know .mtx (Matrix Market), .smtx (DLMC), .npz (scipy.sparse.save_npz or numpy.savez), .npy and \
         .safetensors",
        match extension { Some(text) => format!("the extension .{text} names no known format"), None => "the name has no extension".into() }
    )]
    Extension {
        /// The last extension of the name, if it has one.
        extension: Option<String>,
    },
    /// A right file of a kind that is not read.
    #[error("{fact}; {remedy}")]
    Unsupported {
        /// What it is.
        fact: String,
        /// How to make a file that is read.
        remedy: &'static str,
    },
    /// Not what the format says.
    #[error("{fact}; {remedy}")]
    Malformed {
        /// What stands there.
        fact: String,
        /// What should stand there.
        remedy: &'static str,
    },
    /// It does not fit this machine's memory, or the part of it that this process may have.
    #[error("it does not fit memory: {0}; take a smaller matrix, or raise the limit")]
    Memory(#[from] MemoryError),
    /// A file with several arrays, and none or a wrong one was named.
    #[error("{fact}{}", listed(names))]
    Choose {
        /// What is wrong.
        fact: String,
        /// The matrices that are there, each with its shape and type, by name.
        names: Vec<String>,
    },
    /// The content is right, but not as blocks of this size and type.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}

bsr_codegen::message_as_debug!(ReadProblem);

impl ReadProblem {
    pub(super) fn malformed(fact: impl Into<String>, remedy: &'static str) -> Self {
        Self::Malformed { fact: fact.into(), remedy }
    }

    pub(super) fn unsupported(fact: impl Into<String>, remedy: &'static str) -> Self {
        Self::Unsupported { fact: fact.into(), remedy }
    }
}

/// The matrices that could have been named, if there are any.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 24;
    if names.is_empty() {
        return "; the file must hold a matrix of f16, bf16, f32 or f64".to_owned();
    }
    let more = names.len().saturating_sub(SHOWN);
    let mut text = "; name one of these:".to_owned();
    names.iter().take(SHOWN).for_each(|name| text.push_str(&format!("\n  {name}")));
    if more > 0 {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}
