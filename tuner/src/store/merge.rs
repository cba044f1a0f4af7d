//! Several files into one.

use std::path::Path;

use bsr_codegen::Refusal;
use bsr_runtime::write::FileId;

use super::{Store, Unreadable, error, schema};

/// What a merge brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Records that were read.
    pub read: usize,
    /// Records that were not there before.
    pub new: usize,
    /// Rows that cannot be read, or differ from their digest: they were left where they are.
    pub left: Vec<Unreadable>,
}

/// Where the rows are listed that are left.
const LEFT: &str = "\
    CREATE TEMP TABLE IF NOT EXISTS left_out (source TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (source, id));
    DELETE FROM temp.left_out;";

/// Rows of the other file, by the digests of their content: numbers of rows differ from file to file. Problems and devices
/// that no record needs are not taken: nothing vouches for them.
const MERGE: &str = "\
    INSERT OR IGNORE INTO problems (digest, key, facts, m, n, k, source_kind, source, seed, block_rows, block_cols, nnzb, \
        longest_row, row_spread, empty_rows, reuse)
    SELECT digest, key, facts, m, n, k, source_kind, source, seed, block_rows, block_cols, nnzb, longest_row, row_spread, \
        empty_rows, reuse FROM other.problems WHERE id IN (SELECT problem FROM other.records WHERE id NOT IN \
        (SELECT id FROM temp.left_out WHERE source = 'records')) ORDER BY id;
    INSERT OR IGNORE INTO devices (kind, name, driver) SELECT kind, name, driver FROM other.devices WHERE id IN \
        (SELECT device FROM other.records WHERE id NOT IN (SELECT id FROM temp.left_out WHERE source = 'records')) \
        ORDER BY id;
    INSERT INTO runs (digest, started, ended, version, command, space, space_digest, asked, how)
    SELECT digest, started, ended, version, command, space, space_digest, asked, how FROM other.runs WHERE id NOT IN (SELECT id FROM \
        temp.left_out WHERE source = 'runs') ORDER BY id
    ON CONFLICT (digest) DO UPDATE SET ended = coalesce(ended, excluded.ended), how = coalesce(how, excluded.how);
    INSERT OR IGNORE INTO rejections (run, problem, reason, points)
    SELECT mine.id, theirs.problem, theirs.reason, theirs.points FROM other.rejections theirs JOIN other.runs their ON their.id = theirs.run \
        JOIN runs mine ON mine.digest = their.digest WHERE their.id NOT IN (SELECT id FROM temp.left_out WHERE source = \
        'runs');";

/// LATER stands for columns that the other file may not have.
const RECORDS: &str = "\
    INSERT OR IGNORE INTO records (digest, problem, device, run, subject, baseline, plan, ptx, version, verdict, error, \
        predicted_us, samples, median_us, relative_ci, dense_us, dense_flops, dense_ratio, relative_error, compile_ms, at, watchdog_s, power)
    SELECT r.digest, p.id, d.id, m.id, r.subject, r.baseline, r.plan, r.ptx, r.version, r.verdict, r.error, r.predicted_us, \
        r.samples, r.median_us, r.relative_ci, r.dense_us, r.dense_flops, r.dense_ratio, r.relative_error, r.compile_ms, r.at, LATER
    FROM other.records r \
        JOIN other.problems op ON op.id = r.problem JOIN problems p ON p.digest = op.digest \
        JOIN other.devices od ON od.id = r.device \
        JOIN devices d ON d.kind = od.kind AND d.name = od.name AND d.driver = od.driver \
        LEFT JOIN other.runs t ON t.id = r.run LEFT JOIN runs m ON m.digest = t.digest
    WHERE r.id NOT IN (SELECT id FROM temp.left_out WHERE source = 'records') ORDER BY r.id";

impl Store {
    /// Adds what another file knows: records, their problems and devices, and runs. What is here already stays as it is,
    /// so that a second merge of the same file adds nothing. Rows that cannot be read are left where they are, and told.
    ///
    /// # Errors
    /// A file that is no database of ours, or this one.
    pub fn merge(&mut self, other: impl AsRef<Path>) -> Result<Merged, Refusal> {
        let other = other.as_ref();
        if FileId::of(other) == FileId::of(&self.path) {
            let help = "name the result first, and then other files";
            return Err(error::of(other, "cannot be merged into itself").help(help));
        }
        let read = Self::existing(other)?.len()?;
        let named = |source| error::at(other, source);
        let attach =
            |parameter| self.connection.execute("ATTACH DATABASE ?1 AS other", [schema::uri(other, parameter)]);
        // What cannot be written is read as it lies there: see `schema::open_to_read`.
        let readable = |connection: &rusqlite::Connection| {
            connection.query_row("SELECT count(*) FROM other.records", [], |row| row.get::<_, i64>(0))
        };
        let attached = attach("mode=rw").is_ok();
        if !attached || readable(&self.connection).is_err() {
            if attached {
                self.connection.execute("DETACH DATABASE other", []).map_err(named)?;
            }
            attach("immutable=1").map_err(named)?;
        }
        let merged = self.merge_attached();
        let detached = self.connection.execute("DETACH DATABASE other", []).map_err(named);
        let (new, left) = merged?;
        detached?;
        Ok(Merged { read, new, left })
    }

    fn merge_attached(&mut self) -> Result<(usize, Vec<Unreadable>), Refusal> {
        let path = self.path.clone();
        let named = |source| error::at(&path, source);
        let mut left = self.select_from("other", "ORDER BY r.id", [])?.unreadable;
        left.extend(self.read_runs("other")?.1);
        let later = schema::later(&self.connection, "other").map_err(named)?.join(", ");
        let begun = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate);
        let transaction = begun.map_err(named)?;
        transaction.execute_batch(LEFT).map_err(named)?;
        for Unreadable { table, row, .. } in &left {
            transaction.execute("INSERT INTO temp.left_out VALUES (?1, ?2)", (table, row)).map_err(named)?;
        }
        transaction.execute_batch(MERGE).map_err(named)?;
        let added = transaction.execute(&RECORDS.replace("LATER", &later), []).map_err(named)?;
        transaction.commit().map_err(named)?;
        Ok((added, left))
    }
}
