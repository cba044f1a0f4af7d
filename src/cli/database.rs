//! Databases that commands read: rows that cannot be read are reported, and the others used.

use std::io::{self, Write};
use std::path::Path;

use bsr_tuner::pick::{self, LeftOut};
use bsr_tuner::store::{Contents, Unreadable};
use bsr_tuner::{Record, Store};

use super::exit::Failure;
use super::{line, say};

/// Rows that are named; of others only the number is reported.
const NAMED: usize = 10;

/// Opens a database, and reads its records. Rows that cannot be read are reported on stderr.
///
/// # Errors
/// Bad input: a file that is no database.
pub(super) fn read(path: &Path) -> Result<(Store, Vec<Record>), Failure> {
    let store = Store::existing(path)?;
    let Contents { records, unreadable } = store.read()?;
    report_unreadable(path, &unreadable, "left out");
    Ok((store, records))
}

/// Tells on stderr which rows cannot be read, and what became of them.
pub(super) fn report_unreadable(path: &Path, unreadable: &[Unreadable], what: &str) {
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

/// Tells by how many products of the records nothing can be chosen, and why.
pub(super) fn left_out(records: &[Record], out: &mut dyn Write) -> io::Result<()> {
    let LeftOut { products, reasons } = pick::left_out(records);
    if reasons.is_empty() {
        return Ok(());
    }
    let left: usize = reasons.iter().map(|(_, count)| count).sum();
    let whys: Vec<String> = match reasons.as_slice() {
        [(why, _)] => vec![(*why).to_owned()],
        several => several.iter().map(|(why, count)| format!("{count}: {why}")).collect(),
    };
    line(out, "left out", format_args!("{left} of {products} products: {}", whys.join("; ")))
}
