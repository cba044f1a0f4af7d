//! What happens to a database from outside, and what its rows take.

use std::path::{Path, PathBuf};

use bsr_codegen::Refusal;
use bsr_runtime::read::memory_available;
use bsr_runtime::write::FileId;

use super::{Rejection, RunId, Store, error};

/// Bytes that every database of ours has: its tables alone take several pages.
const LEAST: u64 = 1 << 12;
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

impl Store {
    /// Makes sure that the path still names the database that was opened.
    ///
    /// # Errors
    /// The file was deleted or replaced; what the connection still reads was copied beside it.
    pub(super) fn check_place(&self) -> Result<(), Refusal> {
        // The file is not opened here: closing it would release the locks that SQLite holds on it for this process.
        let length = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        let is_here = self.id.is_some() && FileId::of(&self.path) == self.id && length >= LEAST;
        if is_here { Ok(()) } else { Err(self.replaced()) }
    }

    fn replaced(&self) -> Refusal {
        let mut saved = self.path.as_os_str().to_owned();
        saved.push(format!(".{}.saved", std::process::id()));
        let saved = PathBuf::from(saved);
        let copied = self.connection.execute("VACUUM INTO ?1", [saved.to_string_lossy()]);
        let is_saved = copied.is_ok() && Self::existing(&saved).is_ok();
        let left = if is_saved { format!("in {}", saved.display()) } else { "lost".to_owned() };
        error::of(&self.path, "deleted or replaced by another file while it was written")
            .why(format!("what it held is {left}"))
            .help("run the command again, with nothing else that writes or moves the file")
    }

    /// Ends a run as [`end`](Self::end), and makes sure that whoever opens the file now finds as many of its records as were
    /// inserted.
    ///
    /// # Errors
    /// As `end`; the file was deleted or replaced.
    pub fn conclude(&mut self, run: RunId, how: &str, rejections: &[Rejection]) -> Result<(), Refusal> {
        let ended = self.end(run, how, rejections);
        self.check_place()?;
        ended?;
        let sql = "SELECT count(*) FROM records WHERE run = ?1";
        let count = |store: &Self| store.connection.query_row(sql, [run.0], |row| row.get::<_, i64>(0));
        let here = count(self).map_err(|source| error::at(&self.path, source))?;
        // A connection of its own: this one remembers pages.
        let found = Self::existing(&self.path).ok().and_then(|store| count(&store).ok());
        if found == Some(here) { Ok(()) } else { Err(self.replaced()) }
    }
}
