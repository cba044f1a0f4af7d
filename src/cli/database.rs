//! Databases that commands read: what cannot be read in them is told, and the rest is used.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;

use bsr_tuner::store::{Contents, Unreadable};
use bsr_tuner::{Record, Store};

use super::exit::Failure;
use super::{line, say};

/// Rows that are named; of others the number alone is told.
const NAMED: usize = 10;

/// Opens a database, and reads its records. Rows that cannot be read are told on stderr.
///
/// # Errors
/// Bad input: a file that is no database.
pub(super) fn read(path: &Path) -> Result<(Store, Vec<Record>), Failure> {
    let store = Store::existing(path)?;
    let Contents { records, unreadable } = store.read()?;
    tell(path, &unreadable, "left out");
    Ok((store, records))
}

/// Tells on stderr which rows cannot be read, and what became of them.
pub(super) fn tell(path: &Path, unreadable: &[Unreadable], what: &str) {
    if unreadable.is_empty() {
        return;
    }
    let (count, name) = (unreadable.len(), path.display());
    say(format_args!("warning: {name}: {count} rows cannot be read and are {what}"));
    for Unreadable { table, row, why } in unreadable.iter().take(NAMED) {
        say(format_args!("  {table}, row {row}: {}", why.lines().next().unwrap_or_default()));
    }
    if count > NAMED {
        say(format_args!("  and {} more", count - NAMED));
    }
}

/// Tells of how many products the records say nothing that a choice could be made by.
pub(super) fn left_out(records: &[Record], used: usize, out: &mut dyn Write) -> io::Result<()> {
    let products: HashSet<_> = records.iter().map(|record| (&record.device, &record.problem.workload)).collect();
    match products.len().saturating_sub(used) {
        0 => Ok(()),
        left => {
            let why = "no kernel of theirs was right and timed on a GPU";
            line(out, "left out", format_args!("{left} of {} products: {why}", products.len()))
        }
    }
}
