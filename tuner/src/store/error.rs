//! Why a database cannot be used, and what to do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a database cannot be used. None of them changes the file.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such file, where one is to be read.
    #[error("{}: no such file\n  help: `bsr sweep --db FILE` makes one", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else.
    #[error("{}: not an SQLite database; it is left as it is\n  help: name another file", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// An SQLite database of another application.
    #[error(
        "{}: a database of another application (application_id {found:#010x}, {tables} tables; ours is {ours:#010x}); it is \
         left as it is\n  help: name another file",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its `application_id`.
        found: i32,
        /// Its tables.
        tables: usize,
        /// What ours would be.
        ours: i32,
    },
    /// A database that a newer version has written.
    #[error(
        "{}: written by a newer version: schema {found}, this version reads up to {known}; it is left as it is\n  help: \
         update bsr, or name another file",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i32,
        /// The newest schema that is understood here.
        known: i32,
    },
    /// The file is damaged.
    #[error(
        "{}: the database is damaged: {what}; it is left as it is\n  help: `sqlite3 {} .recover` saves what can be read; name \
         another file to go on without it",
        path.display(), path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        what: String,
    },
    /// The file, or the medium that it is on, cannot be written.
    #[error("{}: cannot be written: the file or its folder is read-only\n  help: copy it, or name another file", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Another process has written for longer than we wait.
    #[error("{}: locked by another process for more than {seconds} s\n  help: see who has it open, and try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// A database with a view, a trigger or a virtual table, which no version of ours makes.
    #[error(
        "{}: the {kind} `{name}` is in it, and databases of bsr hold tables alone; it is left as it is\n  help: name another \
         file, or drop it there",
        path.display()
    )]
    Program {
        /// The file.
        path: PathBuf,
        /// What it is.
        kind: String,
        /// What it is called.
        name: String,
    },
    /// More rows than there is memory for.
    #[error(
        "{}: {rows} rows were read, and half of this machine's memory is used ({left:.1} GB are left)\n  help: split the \
         database, or read it where there is more",
        path.display()
    )]
    Memory {
        /// The file.
        path: PathBuf,
        /// Rows until then.
        rows: usize,
        /// GB that are left.
        left: f64,
    },
    /// The file was deleted or replaced while it was written.
    #[error(
        "{}: deleted or replaced by another file while it was written\n  {}\n  help: run the command again, with nothing else \
         that writes or moves the file",
        path.display(),
        match saved { Some(file) => format!("what it held is in {}", file.display()), None => "what it held is lost".into() }
    )]
    Replaced {
        /// The file.
        path: PathBuf,
        /// A copy of the database.
        saved: Option<PathBuf>,
    },
    /// A record that the database cannot hold, or that it holds and nobody understands.
    #[error("{}: {what}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A file that results are to be merged into is one of those that they come from.
    #[error("{}: cannot be merged into itself\n  help: name the result first, and then other files", path.display())]
    Itself {
        /// The file.
        path: PathBuf,
    },
    /// Results that cannot be written out.
    #[error("cannot write the export: {0}")]
    Export(String),
    /// Anything else that SQLite reports.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: rusqlite::Error,
    },
}

bsr_codegen::message_as_debug!(StoreError);

/// Seconds that a locked database is waited for.
pub(super) const PATIENCE_S: u64 = 30;

/// Names the file in what SQLite reports.
pub(super) fn at(path: &Path, source: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { path },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { path, what: source.to_string() },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path, seconds: PATIENCE_S },
        _ => match source {
            rusqlite::Error::FromSqlConversionFailure(column, _, what) => {
                StoreError::Record { path, what: format!("a record cannot be read: column {column}: {what}") }
            }
            source => StoreError::Sqlite { path, source },
        },
    }
}
