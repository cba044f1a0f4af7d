//! The commands that measured: what was asked, how it ended, and which points never became kernels.

use bsr_codegen::Refusal;
use jiff::Timestamp;
use rusqlite::params;

use super::parts::{Rejection, Room, Run, RunId, RunRow, Unreadable};
use super::{Store, error, row};

impl Store {
    /// Notes that a command begins.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn begin(&mut self, run: &Run) -> Result<RunId, Refusal> {
        let named = |source| error::at(&self.path, source);
        let content = (run, std::process::id());
        let digest = row::digest(&content).map_err(|what| error::of(&self.path, what))?;
        self.connection
            .execute(
                "INSERT INTO runs (digest, started, version, command, space, space_digest, asked) VALUES (?1, ?2, ?3, ?4, \
                 ?5, ?6, ?7)",
                params![
                    digest,
                    run.started.to_string(),
                    run.version,
                    run.command,
                    run.space,
                    run.space_digest,
                    run.asked
                ],
            )
            .map_err(named)?;
        Ok(RunId(self.connection.last_insert_rowid()))
    }

    /// Notes how a command ended, and by reason the points that never became kernels.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn end(&mut self, run: RunId, how: &str, rejections: &[Rejection]) -> Result<(), Refusal> {
        let path = self.path.clone();
        let named = |source| error::at(&path, source);
        let transaction = self.connection.transaction().map_err(named)?;
        let now = Timestamp::now().to_string();
        transaction
            .execute("UPDATE runs SET ended = ?2, how = ?3 WHERE id = ?1", params![run.0, now, how])
            .map_err(named)?;
        for Rejection { problem, reason, points } in rejections {
            let points = i64::try_from(*points).unwrap_or(i64::MAX);
            let sql = "INSERT INTO rejections (run, problem, reason, points) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (run, \
                       problem, reason) DO UPDATE SET points = points + excluded.points";
            transaction.execute(sql, params![run.0, problem, reason, points]).map_err(named)?;
        }
        transaction.commit().map_err(named)
    }

    /// All runs that can be read, in the order of writing.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn runs(&self) -> Result<Vec<RunRow>, Refusal> {
        let (rows, _) = self.read_runs("main")?;
        let named = |source| error::at(&self.path, source);
        let sql = "SELECT problem, reason, points FROM rejections WHERE run = ?1 ORDER BY points DESC, reason, problem";
        let mut statement = self.connection.prepare(sql).map_err(named)?;
        let (mut runs, mut room) = (Vec::with_capacity(rows.len()), Room::new(&self.path));
        for (id, row) in rows {
            let reasons = statement.query_map([id], |row| {
                let points = usize::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
                Ok(Rejection { problem: row.get(0)?, reason: row.get(1)?, points })
            });
            let mut rejections = vec![];
            for reason in reasons.map_err(named)? {
                room.row()?;
                rejections.extend(row_or_none(reason).map_err(named)?);
            }
            runs.push(RunRow { rejections, ..row });
        }
        Ok(runs)
    }

    /// The runs of the database of this name, without their rejections, and those that cannot be read.
    pub(super) fn read_runs(&self, database: &str) -> Result<ReadRuns, Refusal> {
        let named = |source| error::at(&self.path, source);
        let stamp = |column: usize, text: String| {
            text.parse::<Timestamp>().map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
            })
        };
        let sql = format!(
            "SELECT id, started, version, command, space, space_digest, asked, ended, how FROM {database}.runs ORDER BY id"
        );
        let mut statement = self.connection.prepare(&sql).map_err(named)?;
        let read = |row: &rusqlite::Row<'_>| {
            let run = Run {
                started: stamp(1, row.get(1)?)?,
                version: row.get(2)?,
                command: row.get(3)?,
                space: row.get(4)?,
                space_digest: row.get(5)?,
                asked: row.get(6)?,
            };
            let ended = row.get::<_, Option<String>>(7)?.map(|text| stamp(7, text)).transpose()?;
            Ok(RunRow { run, ended, how: row.get(8)?, rejections: vec![] })
        };
        let rows = statement.query_map([], |row| Ok((row.get(0)?, read(row)))).map_err(named)?;
        let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
        let mut room = Room::new(&self.path);
        for row in rows {
            room.row()?;
            match row.map_err(named)? {
                (id, Ok(run)) => runs.push((id, run)),
                (id, Err(error)) if row::is_of_row(&error) => {
                    unreadable.push(Unreadable { table: "runs", row: id, why: row::words(&error) });
                }
                (_, Err(error)) => return Err(named(error)),
            }
        }
        Ok((runs, unreadable))
    }
}

/// Runs with their numbers, and rows that are none.
type ReadRuns = (Vec<(i64, RunRow)>, Vec<Unreadable>);

/// A row that can be read; none of one that cannot.
fn row_or_none<T>(row: rusqlite::Result<T>) -> rusqlite::Result<Option<T>> {
    match row {
        Err(error) if row::is_of_row(&error) => Ok(None),
        row => row.map(Some),
    }
}
