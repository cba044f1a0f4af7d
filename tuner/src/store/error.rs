//! Why a database cannot be used, and what to do about it. No refusal changes the file.

use std::fmt::Display;
use std::path::Path;

use bsr_codegen::Refusal;
use rusqlite::ErrorCode;

/// Seconds that a locked database is waited for.
pub(super) const PATIENCE_S: u64 = 30;

/// A fact about a file.
pub(super) fn of(path: &Path, fact: impl Display) -> Refusal {
    Refusal::of(path.display(), fact)
}

/// A file that is not one of ours, or no longer.
pub(super) fn left_alone(path: &Path, fact: impl Display, help: &str) -> Refusal {
    of(path, format_args!("{fact}; it is left as it is")).help(help)
}

/// A damaged file, with what SQLite found.
pub(super) fn corrupt(path: &Path, found: impl Display) -> Refusal {
    let help =
        format!("`sqlite3 {} .recover` saves what can be read; name another file to go on without it", path.display());
    left_alone(path, format_args!("the database is damaged: {found}"), &help)
}

/// Names the file in what SQLite reports.
pub(super) fn at(path: &Path, source: rusqlite::Error) -> Refusal {
    match (source.sqlite_error_code(), &source) {
        (Some(ErrorCode::NotADatabase), _) => left_alone(path, "not an SQLite database", "name another file"),
        (Some(ErrorCode::DatabaseCorrupt), _) => corrupt(path, source),
        (Some(ErrorCode::ReadOnly), _) => {
            of(path, "cannot be written: the file or its folder is read-only").help("copy it, or name another file")
        }
        (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => {
            of(path, format_args!("locked by another process for more than {PATIENCE_S} s"))
                .help("see who has it open, and try again")
        }
        (_, rusqlite::Error::FromSqlConversionFailure(column, _, what)) => {
            of(path, format_args!("a record cannot be read: column {column}: {what}"))
        }
        _ => of(path, source),
    }
}
