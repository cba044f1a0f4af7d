//! `bsr merge OUT FILE..`: several databases into one.

use std::io::Write;
use std::path::PathBuf;

use bsr_tuner::Store;

use super::exit::{Exit, Failure};
use super::line;

/// Put what several databases know into one: those of a sweep's shards, say.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  bsr merge all.db part1.db part2.db

A record that is there already is not added again, so a merge may be repeated. The files are left as they are.")]
pub(super) struct Args {
    /// The result; made where there is none.
    out: PathBuf,
    /// Databases that it takes everything from.
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
        let merged = store.merge(file)?;
        line(out, "merged", format_args!("{}: {} of {} records are new", file.display(), merged.new, merged.read))?;
    }
    line(out, "database", format_args!("{}, {} records", args.out.display(), store.len()?))?;
    Ok(Exit::Done)
}
