//! `bsr merge OUT FILE..`: several databases into one.

use std::io::Write;
use std::path::PathBuf;

use bsr_tuner::Store;
use bsr_tuner::store::Merged;

use super::exit::{Exit, Failure};
use super::{database, line};

/// Merge several databases into one, for instance those of a sweep's shards.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bsr merge all.db part1.db part2.db

A record that OUT already has is not added again, so a merge can be repeated. The other files are not changed. Rows \
that cannot be read, or that do not match their digest, are counted and skipped.")]
pub(super) struct Args {
    /// The result; created if it does not exist.
    out: PathBuf,
    /// The databases to merge.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    // Before anything is written: all of them can be read.
    for file in &args.files {
        Store::existing(file)?;
    }
    let mut store = Store::open(&args.out)?;
    for file in &args.files {
        let Merged { read, new, left } = store.merge(file)?;
        let words = if left.is_empty() { String::new() } else { format!(", {} rows cannot be read", left.len()) };
        line(out, "merged", format_args!("{}: {new} of {read} records are new{words}", file.display()))?;
        database::report_unreadable(file, &left, "left where they are");
    }
    line(out, "database", format_args!("{}, {} records", args.out.display(), store.len()?))?;
    Ok(Exit::Done)
}
