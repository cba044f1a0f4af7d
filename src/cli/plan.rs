//! `bsr plan SPEC`: every number of a kernel.

use std::io::Write;

use super::exit::{Exit, Failure};
use super::spec;

/// Print the plan of a kernel: every number, with its arithmetic.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr plan \"bm = 512, bn = 128, bk = 112\"
  bsr plan \"bm = 64, bn = 256, bk = 64, dtype = bf16, stages = 4\"
  bsr plan kernels/linear.toml

The first line is the spec in its canonical form. A spec that cannot be planned is explained under the offending \
key, and the exit code is 2.")]
pub(super) struct Args {
    /// What to plan: `bm = .., bn = .., bk = ..`, or the path of a .toml file.
    spec: String,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let planned = spec::plan(&args.spec)?;
    writeln!(out, "{}\n\n{}", planned.spec(), planned.plan.to_string().trim_end())?;
    Ok(Exit::Done)
}
