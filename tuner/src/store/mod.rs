//! The memory: every measurement of every point, in one SQLite file.
//!
//! ```text
//! Record --insert--> records --> problems, devices      a record is the same by the digest of its content
//!                       |
//!                      runs --> rejections              what was asked, and how it ended
//! ```
//!
//! Several processes may write one file: it has a write-ahead log, and a writer waits for another. What was inserted
//! stays, whatever becomes of the process. A file that is damaged, newer, or somebody else's is refused and left as it is.

mod error;
mod export;
mod merge;
mod row;
mod run;
mod schema;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Params, TransactionBehavior};

pub use error::StoreError;
pub use merge::Merged;
pub use run::{Rejection, Run, RunId, RunRow};

use crate::{DeviceId, Record, Workload};
use row::Failed;

/// A database of measurements.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// What is not measured again: a subject (the text of a spec, or the name of a baseline) and the fingerprint of its PTX,
/// empty for a baseline.
pub type Done = HashSet<(String, String)>;

impl Store {
    /// Opens a database, and makes one where there is none.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::with(path.as_ref(), true)
    }

    /// Opens a database that there is.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::with(path.as_ref(), false)
    }

    fn with(path: &Path, create: bool) -> Result<Self, StoreError> {
        Ok(Self { connection: schema::open(path, create)?, path: path.to_owned() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps records of a run, all of them or none; tells how many are new.
    ///
    /// # Errors
    /// A file that cannot be written; a path that is not UTF-8.
    pub fn insert<'r>(
        &mut self,
        records: impl IntoIterator<Item = &'r Record>,
        run: Option<RunId>,
    ) -> Result<usize, StoreError> {
        let path = self.path.clone();
        let failed = |error| match error {
            Failed::Sqlite(source) => error::at(&path, source),
            Failed::Record(what) => StoreError::Record { path: path.clone(), what },
        };
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(|source| error::at(&path, source))?;
        let mut added = 0;
        for record in records {
            added += usize::from(row::insert(&transaction, record, run.map(|run| run.0)).map_err(failed)?);
        }
        transaction.commit().map_err(|source| error::at(&path, source))?;
        Ok(added)
    }

    /// Every record, in the order of writing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn records(&self) -> Result<Vec<Record>, StoreError> {
        self.select("ORDER BY r.id", [])
    }

    /// The records of all problems with a [key](crate::TuningProblem::key), in the order of writing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_problem(&self, key: &str) -> Result<Vec<Record>, StoreError> {
        self.select("WHERE p.key = ?1 ORDER BY r.id", [key])
    }

    /// The records of a workload on a device, in the order of writing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_workload(&self, workload: &Workload, device: &DeviceId) -> Result<Vec<Record>, StoreError> {
        let (kind, source) =
            row::source_words(&workload.source).map_err(|what| StoreError::Record { path: self.path.clone(), what })?;
        let size = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        let sql = "WHERE p.facts = ?1 AND p.m = ?2 AND p.n = ?3 AND p.k = ?4 AND p.source_kind = ?5 AND p.source = ?6 AND \
                   p.seed = ?7 AND d.kind = ?8 AND d.name = ?9 AND d.driver = ?10 ORDER BY r.id";
        let Workload { facts, m, n, k, seed, .. } = workload;
        let [device_kind, name, driver] = device_words(device);
        self.select(
            sql,
            rusqlite::params![
                facts.to_string(),
                size(*m),
                size(*n),
                size(*k),
                kind,
                source,
                seed.cast_signed(),
                device_kind,
                name,
                driver
            ],
        )
    }

    /// What is known of a workload on a device and not measured again. Every verdict is final.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn done(&self, workload: &Workload, device: &DeviceId) -> Result<Done, StoreError> {
        let records = self.of_workload(workload, device)?;
        Ok(records.into_iter().map(|record| (record.subject, record.ptx)).collect())
    }

    /// The fastest kernel of ours for a [key](crate::TuningProblem::key) on a device: an exact hit.
    ///
    /// Where a kernel was timed several times, the latest counts.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn hit(&self, key: &str, device: &DeviceId) -> Result<Option<Record>, StoreError> {
        let [kind, name, driver] = device_words(device);
        let sql = "WHERE p.key = ?1 AND d.kind = ?2 AND d.name = ?3 AND d.driver = ?4 ORDER BY r.id";
        Ok(best(self.select(sql, [key, kind, name, driver])?).into_iter().next())
    }

    /// The fastest kernel of ours for every problem key and device.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn best_per_problem(&self) -> Result<Vec<Record>, StoreError> {
        Ok(best(self.records()?))
    }

    /// How many records there are.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn len(&self) -> Result<usize, StoreError> {
        let count = self.connection.query_row("SELECT count(*) FROM records", [], |row| row.get::<_, i64>(0));
        Ok(usize::try_from(count.map_err(|source| error::at(&self.path, source))?).unwrap_or(0))
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.len()? == 0)
    }

    fn select(&self, rest: &str, params: impl Params) -> Result<Vec<Record>, StoreError> {
        let named = |source| error::at(&self.path, source);
        let mut statement = self.connection.prepare(&format!("{} {rest}", row::COLUMNS)).map_err(named)?;
        let rows = statement.query_map(params, row::record).map_err(named)?;
        rows.collect::<Result<_, _>>().map_err(named)
    }

    /// A value of the `meta` table.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        let value = self.connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0));
        value.optional().map_err(|source| error::at(&self.path, source))
    }
}

fn device_words(device: &DeviceId) -> [&str; 3] {
    [row::kind_word(device.kind), &device.name, &device.driver]
}

/// Of records in the order of writing, the last of every subject.
pub fn latest(records: Vec<Record>) -> Vec<Record> {
    let mut seen = HashSet::new();
    let mut latest: Vec<Record> = records
        .into_iter()
        .rev()
        .filter(|Record { problem, device, subject, ptx, .. }| {
            let Workload { facts, m, n, k, source, seed } = problem.workload.clone();
            seen.insert(((facts, m, n, k, source, seed), device.clone(), subject.clone(), ptx.clone()))
        })
        .collect();
    latest.reverse();
    latest
}

/// The fastest timed kernel for every problem key and device, ordered by them.
fn best(records: Vec<Record>) -> Vec<Record> {
    let mut best = std::collections::BTreeMap::new();
    for record in latest(records) {
        let Some(median) = timed_us(&record) else { continue };
        let DeviceId { name, driver, .. } = record.device.clone();
        let key = (record.problem.key(), row::kind_word(record.device.kind), name, driver);
        match best.entry(key) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(record);
            }
            std::collections::btree_map::Entry::Occupied(mut taken) => {
                if timed_us(taken.get()).is_some_and(|least| median < least) {
                    taken.insert(record);
                }
            }
        }
    }
    best.into_values().collect()
}

/// The median of a kernel of ours that was timed to the end.
fn timed_us(record: &Record) -> Option<f64> {
    let timed = !record.baseline && record.verdict == crate::Verdict::Timed;
    record.timing.as_ref().filter(|_| timed).map(|timing| timing.median_us)
}

#[cfg(test)]
mod tests;
