//! A record as columns, and back.

use std::path::{Path, PathBuf};

use bsr_runtime::features::Features;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params};

use crate::problem::check_side;
use crate::{Dense, DeviceId, DeviceKind, Facts, Heads, Record, Source, Timing, TuningProblem, Verdict, Workload};

/// What [`record`] reads, of the database of this name; `later` are columns that one of an earlier version does not have.
pub(super) fn select(database: &str, later: &[String; 2]) -> String {
    let later = later.join(", ");
    format!(
        "SELECT {COLUMNS}, {later} FROM {database}.records r LEFT JOIN {database}.problems p ON p.id = r.problem LEFT JOIN \
         {database}.devices d ON d.id = r.device"
    )
}

const COLUMNS: &str = "p.facts, p.m, p.n, p.k, p.source_kind, p.source, p.seed, p.block_rows, p.block_cols, \
     p.nnzb, p.longest_row, p.row_spread, p.empty_rows, p.reuse, d.kind, d.name, d.driver, r.subject, r.baseline, r.plan, \
     r.ptx, r.version, r.verdict, r.error, r.predicted_us, r.samples, r.median_us, r.relative_ci, r.dense_us, \
     r.dense_flops, r.dense_ratio, r.relative_error, r.compile_ms, r.at, r.id, r.digest, p.digest";

/// The words of a kind of device.
pub(super) const fn kind_word(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Gpu => "gpu",
        DeviceKind::Sim => "sim",
        DeviceKind::Fake => "fake",
    }
}

/// Equal content, equal digest. A zero has no sign: SQLite keeps none.
pub(super) fn digest(value: &impl serde::Serialize) -> Result<String, String> {
    let text = serde_json::to_string(value).map_err(|error| format!("cannot be written: {error}"))?;
    Ok(blake3::hash(unsigned_zeros(&text).as_bytes()).to_hex().as_str()[..32].to_owned())
}

/// JSON with `0.0` in place of the number `-0.0`.
fn unsigned_zeros(json: &str) -> String {
    let is_zero = |at: usize| {
        let before = at == 0 || matches!(json.as_bytes()[at - 1], b':' | b',' | b'[' | b'(');
        let after = json.as_bytes().get(at + 4).is_none_or(|byte| matches!(byte, b',' | b'}' | b']'));
        before && after
    };
    let (mut shown, mut is_text, mut is_escape, mut rest) = (String::with_capacity(json.len()), false, false, 0);
    for (at, byte) in json.bytes().enumerate() {
        match byte {
            _ if is_escape => is_escape = false,
            b'\\' if is_text => is_escape = true,
            b'"' => is_text = !is_text,
            b'-' if !is_text && json[at..].starts_with("-0.0") && is_zero(at) => {
                shown.push_str(&json[rest..at]);
                rest = at + 1;
            }
            _ => {}
        }
    }
    shown.push_str(&json[rest..]);
    shown
}

/// A source as its kind and its text.
pub(super) fn source_words(source: &Source) -> Result<(&'static str, String), String> {
    match source {
        Source::Pattern(words) => Ok(("pattern", words.clone())),
        Source::File(path) => Ok(("file", utf8(path)?.to_owned())),
        // A name may hold anything that a path may.
        Source::Tensor { file, name } => {
            Ok(("tensor", serde_json::Value::from(vec![utf8(file)?, name.as_str()]).to_string()))
        }
        Source::Mask { pattern, heads } => {
            Ok(("mask", serde_json::to_string(&(pattern, heads)).map_err(|error| error.to_string())?))
        }
        Source::Given => Ok(("given", String::new())),
    }
}

fn utf8(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| format!("{}: the path is not UTF-8\n  help: rename the file", path.display()))
}

/// The row of a problem, made if it is new.
pub(super) fn problem_id(connection: &Connection, problem: &TuningProblem) -> Result<i64, Failed> {
    let digest = digest(problem)?;
    let known = "SELECT id FROM problems WHERE digest = ?1";
    if let Some(id) = connection.prepare_cached(known)?.query_row([&digest], |row| row.get(0)).optional()? {
        return Ok(id);
    }
    let TuningProblem { workload, features, second } = problem;
    if second.is_some() {
        return Err("the second factor is a program's: no other process can draw it".to_owned().into());
    }
    let (source_kind, source) = source_words(&workload.source)?;
    let sql = "INSERT INTO problems (digest, key, facts, m, n, k, source_kind, source, seed, block_rows, block_cols, nnzb, \
               longest_row, row_spread, empty_rows, reuse) VALUES (:digest, :key, :facts, :m, :n, :k, :source_kind, \
               :source, :seed, :block_rows, :block_cols, :nnzb, :longest_row, :row_spread, :empty_rows, :reuse)";
    connection.prepare_cached(sql)?.execute(named_params! {
        ":digest": digest,
        ":key": problem.key(),
        ":facts": workload.facts.to_string(),
        ":m": int(workload.m)?,
        ":n": int(workload.n)?,
        ":k": int(workload.k)?,
        ":source_kind": source_kind,
        ":source": source,
        ":seed": workload.seed.cast_signed(),
        ":block_rows": int(features.block_rows)?,
        ":block_cols": int(features.block_cols)?,
        ":nnzb": int(features.nnzb)?,
        ":longest_row": int(features.longest_row)?,
        ":row_spread": features.row_spread,
        ":empty_rows": features.empty_rows,
        ":reuse": features.reuse,
    })?;
    Ok(connection.last_insert_rowid())
}

/// The row of a device, made if it is new.
pub(super) fn device_id(connection: &Connection, device: &DeviceId) -> Result<i64, Failed> {
    let values = [kind_word(device.kind), device.name.as_str(), device.driver.as_str()];
    let known = "SELECT id FROM devices WHERE kind = ?1 AND name = ?2 AND driver = ?3";
    if let Some(id) = connection.prepare_cached(known)?.query_row(values, |row| row.get(0)).optional()? {
        return Ok(id);
    }
    connection.prepare_cached("INSERT INTO devices (kind, name, driver) VALUES (?1, ?2, ?3)")?.execute(values)?;
    Ok(connection.last_insert_rowid())
}

/// Adds a record; false if it is there already.
pub(super) fn insert(connection: &Connection, record: &Record, run: Option<i64>) -> Result<bool, Failed> {
    let digest = digest(record)?;
    let (problem, device) = (problem_id(connection, &record.problem)?, device_id(connection, &record.device)?);
    let (timing, dense) = (record.timing.as_ref(), record.dense.as_ref());
    let power = record.power.as_ref().map(serde_json::to_string).transpose();
    let power = power.map_err(|error| format!("power cannot be written: {error}"))?;
    let sql = "INSERT OR IGNORE INTO records (digest, problem, device, run, subject, baseline, plan, ptx, version, verdict, \
               error, predicted_us, samples, median_us, relative_ci, dense_us, dense_flops, dense_ratio, relative_error, \
               compile_ms, watchdog_s, power, at) VALUES (:digest, :problem, :device, :run, :subject, :baseline, :plan, :ptx, :version, \
               :verdict, :error, :predicted_us, :samples, :median_us, :relative_ci, :dense_us, :dense_flops, :dense_ratio, \
               :relative_error, :compile_ms, :watchdog_s, :power, :at)";
    let added = connection.prepare_cached(sql)?.execute(named_params! {
        ":digest": digest,
        ":problem": problem,
        ":device": device,
        ":run": run,
        ":subject": record.subject,
        ":baseline": record.baseline,
        ":plan": record.plan,
        ":ptx": record.ptx,
        ":version": record.version,
        ":verdict": record.verdict.as_str(),
        ":error": record.error,
        ":predicted_us": record.predicted_us,
        ":samples": timing.map(|timing| timing.samples_us.iter().flat_map(|us| us.to_le_bytes()).collect::<Vec<u8>>()),
        ":median_us": timing.map(|timing| timing.median_us),
        ":relative_ci": timing.and_then(|timing| timing.relative_ci),
        ":dense_us": dense.map(|dense| dense.median_us),
        ":dense_flops": dense.map(|dense| int(dense.flops)).transpose()?,
        ":dense_ratio": dense.map(|dense| dense.ratio),
        ":relative_error": record.relative_error,
        ":compile_ms": record.compile_ms,
        ":watchdog_s": record.watchdog_s,
        ":power": power,
        ":at": record.at.to_string(),
    })?;
    Ok(added > 0)
}

/// What has been recorded is nobody's any more.
pub(super) fn release(connection: &Connection, record: &Record) -> Result<(), Failed> {
    let point = point(&record.problem.workload, &record.device, &record.subject, &record.ptx)?;
    connection.prepare_cached("DELETE FROM claims WHERE point = ?1")?.execute([point])?;
    Ok(())
}

/// What a point is claimed by.
pub(super) fn point(workload: &Workload, device: &DeviceId, subject: &str, ptx: &str) -> Result<String, String> {
    digest(&(workload, device, subject, ptx))
}

/// The number of the row that [`select`] selects.
pub(super) fn number_of(row: &Row<'_>) -> rusqlite::Result<i64> {
    row.get(34)
}

/// Reads what [`select`] selects, and holds it against the digests that were stored with it.
///
/// # Errors
/// [`Unreadable`] in words, or what SQLite reports.
pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let record = unchecked(row)?;
    for (at, digest, what) in [(35, digest(&record), "record"), (36, digest(&record.problem), "problem")] {
        if digest.as_ref().ok() != Some(&row.get::<_, String>(at)?) {
            return Err(bad(at, format!("the {what} differs from its digest: it was altered")));
        }
    }
    record.problem.check().map_err(|why| bad(7, why))?;
    Ok(record)
}

/// Whether an error is of one row, and not of the file.
pub(super) fn is_of_row(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..))
}

/// What is wrong with a row, in words.
pub(super) fn words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, what) => what.to_string(),
        error => error.to_string(),
    }
}

fn unchecked(row: &Row<'_>) -> rusqlite::Result<Record> {
    let size = |at: usize| row.get::<_, i64>(at).and_then(|value| whole(at, value));
    let text = |at: usize| row.get::<_, String>(at);
    let number = |at: usize| row.get::<_, Option<f64>>(at);
    let facts: Facts = text(0)?.parse().map_err(|error| bad(0, format!("facts: {error}")))?;
    let source = match text(4)?.as_str() {
        "pattern" => Source::Pattern(text(5)?),
        "file" => Source::File(PathBuf::from(text(5)?)),
        "tensor" => {
            let [file, name] = serde_json::from_str::<[String; 2]>(&text(5)?)
                .map_err(|error| bad(5, format!("a file and a matrix in it: {error}")))?;
            Source::Tensor { file: file.into(), name }
        }
        "mask" => {
            let (pattern, heads) = serde_json::from_str::<(String, Heads)>(&text(5)?)
                .map_err(|error| bad(5, format!("a pattern and heads: {error}")))?;
            Source::Mask { pattern, heads }
        }
        "given" => Source::Given,
        other => return Err(bad(4, format!("`{other}` is no kind of source"))),
    };
    let seed = row.get::<_, i64>(6)?.cast_unsigned();
    let side = |at: usize| {
        let side = size(at)?;
        check_side(side).map_err(|why| bad(at, why)).map(|()| side)
    };
    let workload = Workload { facts, m: side(1)?, n: side(2)?, k: side(3)?, source, seed };
    let features = Features {
        block_rows: size(7)?,
        block_cols: size(8)?,
        nnzb: size(9)?,
        longest_row: size(10)?,
        row_spread: row.get(11)?,
        empty_rows: row.get(12)?,
        reuse: row.get(13)?,
    };
    let word = text(14)?;
    let kinds = [DeviceKind::Gpu, DeviceKind::Sim, DeviceKind::Fake];
    let kind = kinds.into_iter().find(|kind| kind_word(*kind) == word);
    let kind = kind.ok_or_else(|| bad(14, format!("`{word}` is no kind of device")))?;
    let word = text(22)?;
    let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == word);
    let verdict = verdict.ok_or_else(|| bad(22, format!("`{word}` is no verdict")))?;
    let timing = match row.get::<_, Option<Vec<u8>>>(25)? {
        None => None,
        Some(bytes) => {
            let (samples, rest) = bytes.as_chunks::<8>();
            if !rest.is_empty() {
                return Err(bad(25, format!("samples: {} bytes are no whole number of times of 8 bytes", bytes.len())));
            }
            let samples_us = samples.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
            Some(Timing { samples_us, median_us: row.get(26)?, relative_ci: number(27)? })
        }
    };
    let dense = match (number(28)?, row.get::<_, Option<i64>>(29)?, number(30)?) {
        (Some(median_us), Some(flops), Some(ratio)) => Some(Dense { median_us, flops: whole(29, flops)?, ratio }),
        _ => None,
    };
    let power = row.get::<_, Option<String>>(38)?.map(|text| serde_json::from_str(&text)).transpose();
    let power = power.map_err(|error| bad(38, format!("power: {error}")))?;
    Ok(Record {
        problem: TuningProblem { workload, features, second: None },
        device: DeviceId { kind, name: text(15)?, driver: text(16)? },
        subject: text(17)?,
        baseline: row.get(18)?,
        plan: text(19)?,
        ptx: text(20)?,
        version: text(21)?,
        verdict,
        error: row.get(23)?,
        predicted_us: number(24)?,
        timing,
        dense,
        relative_error: number(31)?,
        compile_ms: number(32)?,
        watchdog_s: number(37)?,
        power,
        at: text(33)?.parse().map_err(|error| bad(33, format!("at: {error}")))?,
    })
}

/// Why a record was not written.
#[derive(Debug)]
pub(super) enum Failed {
    /// SQLite does not take it.
    Sqlite(rusqlite::Error),
    /// It cannot be had in columns.
    Record(String),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<String> for Failed {
    fn from(what: String) -> Self {
        Self::Record(what)
    }
}

/// SQLite's integers have a sign.
pub(super) fn int<N: TryInto<i64> + std::fmt::Display + Copy>(value: N) -> Result<i64, String> {
    value.try_into().map_err(|_| format!("{value} is more than a database holds: at most {}", i64::MAX))
}

fn whole<N: TryFrom<i64>>(at: usize, value: i64) -> rusqlite::Result<N> {
    N::try_from(value).map_err(|_| bad(at, format!("{value} is no size")))
}

fn bad(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}

#[cfg(test)]
mod tests {
    use super::unsigned_zeros;

    #[test]
    fn only_numbers_lose_the_sign_of_a_zero() {
        let json = r#"{"a":-0.0,"b":[-0.0,-0.05],"c":"\"-0.0,","d":":-0.0,"}"#;
        assert_eq!(unsigned_zeros(json), r#"{"a":0.0,"b":[0.0,-0.05],"c":"\"-0.0,","d":":-0.0,"}"#);
    }
}
