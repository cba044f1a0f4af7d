//! What happens to a database from outside, and what its rows take.

use std::path::PathBuf;

use bsr_codegen::Refusal;
use bsr_runtime::write::FileId;

use super::parts::{Rejection, RunId};
use super::{Store, error};

/// Bytes that every database of ours has: its tables alone take several pages.
const LEAST: u64 = 1 << 12;

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
