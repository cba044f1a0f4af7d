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
//! A row that cannot be read, or that differs from its digest, is left where it is and told: the others are read.

mod claim;
mod error;
mod export;
mod guard;
mod merge;
mod parts;
mod row;
mod run;
mod schema;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use bsr_codegen::Refusal;
use bsr_runtime::write::FileId;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Params, TransactionBehavior};

pub use claim::{Claimed, Owner};
pub use export::{export_csv, export_json};
pub use merge::Merged;
pub use parts::{Rejection, Run, RunId, RunRow, Unreadable};

use crate::{DeviceId, Record, Workload};
use parts::Room;
use row::Failed;

/// A database of measurements.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Which file the path named when it was opened.
    id: Option<FileId>,
}

/// What a database holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// The records that can be read, in the order of writing.
    pub records: Vec<Record>,
    /// The rows that cannot.
    pub unreadable: Vec<Unreadable>,
}

/// What is not measured again: a subject (the text of a spec, or the name of a baseline) and the fingerprint of its PTX,
/// empty for a baseline.
pub type Done = HashSet<(String, String)>;

impl Store {
    /// Opens a database, and makes one where there is none.
    ///
    /// # Errors
    /// A file that is no database of this schema or an earlier one, or that cannot be written.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Refusal> {
        let path = path.as_ref();
        Ok(Self { connection: schema::open_to_write(path)?, path: path.to_owned(), id: FileId::of(path) })
    }

    /// Opens a database that there is, to read it: it may be on a medium that cannot be written.
    ///
    /// # Errors
    /// No such file, or one that is no database of this schema or an earlier one.
    pub fn existing(path: impl AsRef<Path>) -> Result<Self, Refusal> {
        let path = path.as_ref();
        Ok(Self { connection: schema::open_to_read(path)?, path: path.to_owned(), id: FileId::of(path) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps records of a run, all of them or none; tells how many are new.
    ///
    /// # Errors
    /// A file that cannot be written, or that was deleted or replaced; a path that is not UTF-8.
    pub fn insert<'r>(
        &mut self,
        records: impl IntoIterator<Item = &'r Record>,
        run: Option<RunId>,
    ) -> Result<usize, Refusal> {
        let added = self.add(records, run);
        // First: it explains every other error.
        self.check_place()?;
        added
    }

    fn add<'r>(&mut self, records: impl IntoIterator<Item = &'r Record>, run: Option<RunId>) -> Result<usize, Refusal> {
        let path = self.path.clone();
        let failed = |error| match error {
            Failed::Sqlite(source) => error::at(&path, source),
            Failed::Record(what) => error::of(&path, what),
        };
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(|source| error::at(&path, source))?;
        let mut added = 0;
        for record in records {
            added += usize::from(row::insert(&transaction, record, run.map(|run| run.0)).map_err(failed)?);
            row::release(&transaction, record).map_err(failed)?;
        }
        transaction.commit().map_err(|source| error::at(&path, source))?;
        Ok(added)
    }

    /// Every record that can be read, in the order of writing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn records(&self) -> Result<Vec<Record>, Refusal> {
        self.select("ORDER BY r.id", [])
    }

    /// As [`Store::records`], with the rows that cannot be read.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(&self) -> Result<Contents, Refusal> {
        let mut read = self.select_from("main", "ORDER BY r.id", [])?;
        read.unreadable.extend(self.read_runs("main")?.1);
        Ok(read)
    }

    /// The records of all problems with a [key](crate::TuningProblem::key), in the order of writing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_problem(&self, key: &str) -> Result<Vec<Record>, Refusal> {
        self.select("WHERE p.key = ?1 ORDER BY r.id", [key])
    }

    /// The records of a workload on a device, in the order of writing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_workload(&self, workload: &Workload, device: &DeviceId) -> Result<Vec<Record>, Refusal> {
        self.select_workload(workload, device, "", [])
    }

    /// The last record of a point: a subject and the fingerprint of its PTX.
    fn of_point(
        &self,
        workload: &Workload,
        device: &DeviceId,
        subject: &str,
        ptx: &str,
    ) -> Result<Option<Record>, Refusal> {
        let point = [subject, ptx].map(|text| Value::from(text.to_owned()));
        Ok(self.select_workload(workload, device, "AND r.subject = ?11 AND r.ptx = ?12", point)?.pop())
    }

    fn select_workload(
        &self,
        workload: &Workload,
        device: &DeviceId,
        and: &str,
        more: impl IntoIterator<Item = Value>,
    ) -> Result<Vec<Record>, Refusal> {
        let Workload { facts, m, n, k, source, seed } = workload;
        let (source_kind, source) = row::source_words(source).map_err(|what| error::of(&self.path, what))?;
        let size = |value: usize| Value::from(i64::try_from(value).unwrap_or(i64::MAX));
        let text = |text: &str| Value::from(text.to_owned());
        let [kind, name, driver] = device_words(device);
        let values = [
            text(&facts.to_string()),
            size(*m),
            size(*n),
            size(*k),
            text(source_kind),
            text(&source),
            Value::from(seed.cast_signed()),
            text(kind),
            text(name),
            text(driver),
        ];
        let rest = format!(
            "WHERE p.facts = ?1 AND p.m = ?2 AND p.n = ?3 AND p.k = ?4 AND p.source_kind = ?5 AND p.source = ?6 AND \
             p.seed = ?7 AND d.kind = ?8 AND d.name = ?9 AND d.driver = ?10 {and} ORDER BY r.id"
        );
        self.select(&rest, rusqlite::params_from_iter(values.into_iter().chain(more)))
    }

    /// What is known of a workload on a device and not measured again. Every verdict is final.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn done(&self, workload: &Workload, device: &DeviceId) -> Result<Done, Refusal> {
        let records = self.of_workload(workload, device)?;
        Ok(records.into_iter().map(|record| (record.subject, record.ptx)).collect())
    }

    /// The fastest kernel of ours for a [key](crate::TuningProblem::key) on a device: an exact hit.
    ///
    /// Where a kernel was timed several times, the latest counts.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn hit(&self, key: &str, device: &DeviceId) -> Result<Option<Record>, Refusal> {
        let [kind, name, driver] = device_words(device);
        let sql = "WHERE p.key = ?1 AND d.kind = ?2 AND d.name = ?3 AND d.driver = ?4 ORDER BY r.id";
        Ok(best(self.select(sql, [key, kind, name, driver])?).into_iter().next())
    }

    /// The fastest kernel of ours for every problem key and device.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn best_per_problem(&self) -> Result<Vec<Record>, Refusal> {
        Ok(best(self.records()?))
    }

    /// How many records there are.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn len(&self) -> Result<usize, Refusal> {
        let count = self.connection.query_row("SELECT count(*) FROM records", [], |row| row.get::<_, i64>(0));
        Ok(usize::try_from(count.map_err(|source| error::at(&self.path, source))?).unwrap_or(0))
    }

    /// Whether there are none.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn is_empty(&self) -> Result<bool, Refusal> {
        Ok(self.len()? == 0)
    }

    fn select(&self, rest: &str, params: impl Params) -> Result<Vec<Record>, Refusal> {
        Ok(self.select_from("main", rest, params)?.records)
    }

    /// The records of the database of this name.
    fn select_from(&self, database: &str, rest: &str, params: impl Params) -> Result<Contents, Refusal> {
        let named = |source| error::at(&self.path, source);
        let later = schema::later(&self.connection, database).map_err(named)?;
        let sql = format!("{} {rest}", row::select(database, &later));
        let mut statement = self.connection.prepare(&sql).map_err(named)?;
        let rows = statement.query_map(params, |row| Ok((row::number_of(row)?, row::record(row)))).map_err(named)?;
        let (mut read, mut room) = (Contents::default(), Room::new(&self.path));
        for row in rows {
            room.row()?;
            match row.map_err(named)? {
                (_, Ok(record)) => read.records.push(record),
                (row, Err(error)) if row::is_of_row(&error) => {
                    read.unreadable.push(Unreadable { table: "records", row, why: row::words(&error) });
                }
                (_, Err(error)) => return Err(named(error)),
            }
        }
        Ok(read)
    }

    /// A value of the `meta` table.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn meta(&self, key: &str) -> Result<Option<String>, Refusal> {
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
mod row_tests;
#[cfg(test)]
mod tests;
