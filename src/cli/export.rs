//! `bsr export DB`: a database for other programs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use bsr_tuner::Store;
use bsr_tuner::pick::Table;
use bsr_tuner::store::StoreError;

use super::exit::{Exit, Failure};
use super::{cannot_write, line};

/// Write every record of a database as a table, or as a line of JSON each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr export h200.db > records.csv
  bsr export h200.db --csv records.csv --json records.jsonl
  bsr export h200.db --tuned tuned.jsonl

Times are microseconds.")]
pub(super) struct Args {
    /// The database.
    db: PathBuf,
    /// Write a table with a heading to this file; without any file, to standard output.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a line of JSON for each record to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the fastest kernel of every problem to this file, a line of JSON each: a table for a tuner.
    #[arg(long, value_name = "FILE")]
    tuned: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let store = Store::existing(&args.db)?;
    if args.csv.is_none() && args.json.is_none() && args.tuned.is_none() {
        // Through memory: what cannot be read leaves no half of a table, and a closed pipe is no failure.
        let mut table = Vec::new();
        store.export_csv(&mut table)?;
        out.write_all(&table)?;
        return Ok(Exit::Done);
    }
    if let Some(path) = &args.csv {
        write(path, out, |file| store.export_csv(file))?;
    }
    if let Some(path) = &args.json {
        write(path, out, |file| store.export_json(file))?;
    }
    if let Some(path) = &args.tuned {
        let table = Table::best_of(&store.records()?);
        let lines = table.to_lines().map_err(|error| Failure::new(Exit::Wrong, error))?;
        std::fs::write(path, lines).map_err(|error| cannot_write(path, &error))?;
        line(out, "written", format_args!("{} problems to {}", table.tuned().len(), path.display()))?;
    }
    Ok(Exit::Done)
}

fn write(
    path: &Path,
    out: &mut dyn Write,
    export: impl FnOnce(BufWriter<File>) -> Result<usize, StoreError>,
) -> Result<(), Failure> {
    let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
    let count = export(BufWriter::new(file))?;
    Ok(line(out, "written", format_args!("{count} records to {}", path.display()))?)
}
