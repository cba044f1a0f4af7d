//! Several files into one.

use std::path::Path;

use super::{Store, StoreError, error};

/// What a merge brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Records that were read.
    pub read: usize,
    /// Records that were not there before.
    pub new: usize,
}

/// Rows of the other file, by the digests of their content: numbers of rows differ from file to file.
const MERGE: &str = "\
    INSERT OR IGNORE INTO problems (digest, key, facts, m, n, k, source_kind, source, seed, block_rows, block_cols, nnzb, \
        longest_row, row_spread, empty_rows, reuse)
    SELECT digest, key, facts, m, n, k, source_kind, source, seed, block_rows, block_cols, nnzb, longest_row, row_spread, \
        empty_rows, reuse FROM other.problems ORDER BY id;
    INSERT OR IGNORE INTO devices (kind, name, driver) SELECT kind, name, driver FROM other.devices ORDER BY id;
    INSERT INTO runs (digest, started, ended, version, command, space, space_digest, asked, how)
    SELECT digest, started, ended, version, command, space, space_digest, asked, how FROM other.runs WHERE true ORDER BY id
    ON CONFLICT (digest) DO UPDATE SET ended = coalesce(ended, excluded.ended), how = coalesce(how, excluded.how);
    INSERT OR IGNORE INTO rejections (run, problem, reason, points)
    SELECT mine.id, theirs.problem, theirs.reason, theirs.points FROM other.rejections theirs JOIN other.runs their ON their.id = theirs.run \
        JOIN runs mine ON mine.digest = their.digest;";

const RECORDS: &str = "\
    INSERT OR IGNORE INTO records (digest, problem, device, run, subject, baseline, plan, ptx, version, verdict, error, \
        predicted_us, samples, median_us, relative_ci, dense_us, dense_flops, dense_ratio, relative_error, compile_ms, at)
    SELECT r.digest, p.id, d.id, m.id, r.subject, r.baseline, r.plan, r.ptx, r.version, r.verdict, r.error, r.predicted_us, \
        r.samples, r.median_us, r.relative_ci, r.dense_us, r.dense_flops, r.dense_ratio, r.relative_error, r.compile_ms, r.at
    FROM other.records r \
        JOIN other.problems op ON op.id = r.problem JOIN problems p ON p.digest = op.digest \
        JOIN other.devices od ON od.id = r.device \
        JOIN devices d ON d.kind = od.kind AND d.name = od.name AND d.driver = od.driver \
        LEFT JOIN other.runs t ON t.id = r.run LEFT JOIN runs m ON m.digest = t.digest
    ORDER BY r.id";

impl Store {
    /// Adds what another file knows: records, their problems and devices, and runs. What is here already stays as it is,
    /// so that a second merge of the same file adds nothing.
    ///
    /// # Errors
    /// A file that is no database of ours, or this one; see [`StoreError`].
    pub fn merge(&mut self, other: impl AsRef<Path>) -> Result<Merged, StoreError> {
        let other = other.as_ref();
        let read = Self::existing(other)?.len()?;
        let same = |path: &Path| std::fs::canonicalize(path).ok();
        if same(other) == same(&self.path) {
            return Err(StoreError::Itself { path: other.to_owned() });
        }
        let text = other.to_str().ok_or_else(|| StoreError::Record {
            path: other.to_owned(),
            what: "the path is not UTF-8\n  help: rename the file".to_owned(),
        })?;
        let named = |source| error::at(other, source);
        self.connection.execute("ATTACH DATABASE ?1 AS other", [text]).map_err(named)?;
        let added = self.merge_attached().map_err(|source| error::at(&self.path, source));
        let detached = self.connection.execute("DETACH DATABASE other", []).map_err(named);
        let new = added?;
        detached?;
        Ok(Merged { read, new })
    }

    fn merge_attached(&mut self) -> rusqlite::Result<usize> {
        let transaction = self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        transaction.execute_batch(MERGE)?;
        let added = transaction.execute(RECORDS, [])?;
        transaction.commit()?;
        Ok(added)
    }
}
