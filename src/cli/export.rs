//! `bsr export DB`: a database for other programs.

use std::io::Write;
use std::path::{Path, PathBuf};

use bsr_tuner::pick::Table;
use bsr_tuner::store::{export_csv, export_json};

use super::exit::{Exit, Failure};
use super::output::{self, Outputs, Replace};
use super::{database, line, say};

/// Write the records of a database as a table, or as one line of JSON each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr export h200.db > records.csv
  bsr export h200.db --csv records.csv --json records.jsonl
  bsr export h200.db --tuned tuned.jsonl

Times are in microseconds. `-` in place of a file is standard output; messages then go to standard error.")]
pub(super) struct Args {
    /// The database.
    db: PathBuf,
    /// Write a CSV table with a header line to this file; if no file is named, to standard output.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write one line of JSON per record to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the fastest kernel of each problem to this file, one line of JSON per problem: a table for a tuner.
    #[arg(long, value_name = "FILE")]
    tuned: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let files = [("--csv", args.csv.as_ref()), ("--json", args.json.as_ref()), ("--tuned", args.tuned.as_ref())];
    let outputs = Outputs::new(files, output::database(&args.db).iter().map(PathBuf::as_path), &args.replace)?;
    let out = &mut *outputs.answers(out);
    let (_, records) = database::read(&args.db)?;
    if args.csv.is_none() && args.json.is_none() && args.tuned.is_none() {
        let mut table = Vec::new();
        export_csv(&records, &mut table)?;
        output::write(Path::new("-"), |file| Ok(file.write_all(&table)?))?;
        return Ok(Exit::Done);
    }
    let count = format!("{} records", records.len());
    if let Some(path) = &args.csv {
        let mut table = Vec::new();
        export_csv(&records, &mut table)?;
        write(path, &table, &count, out)?;
    }
    if let Some(path) = &args.json {
        let mut lines = Vec::new();
        export_json(&records, &mut lines)?;
        write(path, &lines, &count, out)?;
    }
    if let Some(path) = &args.tuned {
        let table = Table::best_of(&records);
        if table.tuned().is_empty() {
            say("warning: no kernel of the records was timed on a GPU: the table is empty");
        }
        let lines = table.to_lines().map_err(Failure::wrong)?;
        write(path, lines.as_bytes(), &format!("{} problems", table.tuned().len()), out)?;
        database::left_out(&records, out)?;
    }
    Ok(Exit::Done)
}

fn write(path: &Path, bytes: &[u8], what: &str, out: &mut dyn Write) -> Result<(), Failure> {
    output::write(path, |file| Ok(file.write_all(bytes)?))?;
    Ok(line(out, "written", format_args!("{what} to {}", path.display()))?)
}
