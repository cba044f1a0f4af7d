//! What can prevent a file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bsr_codegen::{Dtype, Refusal};
use thiserror::Error;

/// Why a file was not written: which one, the fact, and what to do. Nothing was changed.
pub struct WriteError {
    file: PathBuf,
    problem: WriteProblem,
}

bsr_codegen::message_as_debug!(WriteError);

impl WriteError {
    pub(super) fn new(file: &Path, problem: WriteProblem) -> Self {
        Self { file: file.to_path_buf(), problem }
    }

    /// A file that the system does not write.
    pub fn io(file: &Path, error: io::Error) -> Self {
        Self::new(file, error.into())
    }

    /// The file, as it was named.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What is wrong.
    pub fn problem(&self) -> &WriteProblem {
        &self.problem
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.problem)
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problem.source()
    }
}

/// What prevents a file.
#[derive(Error)]
#[non_exhaustive]
pub enum WriteProblem {
    /// It cannot be written.
    #[error("cannot be written: {0}")]
    Io(#[from] io::Error),
    /// It is there.
    #[error("the file is there\n  help: choose another name, or say that it may be overwritten")]
    Exists,
    /// A name, an element type or an order of rows that is not written.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

bsr_codegen::message_as_debug!(WriteProblem);

impl WriteProblem {
    /// An element type that is not written.
    pub(super) fn dtype(dtype: Dtype) -> Self {
        Refusal::new(format!("elements of type {dtype}")).help("write f16, bf16, f32 or f64: Bsr::cast").into()
    }
}
