//! `bsr emit SPEC`: the PTX, and its cubin.

use std::path::{Path, PathBuf};

use super::exit::{Exit, Failure};
use super::output::{self, Outputs, Replace};
use super::ptxas::Ptxas;
use super::{say, spec};

/// Print the PTX of a kernel, or write it to a file; assemble it with --cubin.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr emit \"bm = 512, bn = 128, bk = 112\" | less
  bsr emit \"bm = 512, bn = 128, bk = 112\" -o spmm.ptx
  bsr emit \"bm = 512, bn = 128, bk = 112\" --cubin spmm.cubin

ptxas is searched for in $PTXAS, on the PATH, in $CUDA_HOME/bin, in /usr/local/cuda/bin and in the NVIDIA wheels of \
an active Python environment. Registers, spills and warnings are reported on stderr.")]
pub(super) struct Args {
    /// What to emit: `bm = .., bn = .., bk = ..`, or the path of a .toml file.
    spec: String,
    /// Write the PTX to this file; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Assemble the PTX with ptxas and write the cubin to this file; `-` is standard output. The PTX itself is then written
    /// only with -o.
    #[arg(long, value_name = "FILE")]
    cubin: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    Outputs::new(
        [("-o", args.output.as_ref()), ("--cubin", args.cubin.as_ref())],
        [Path::new(&args.spec)],
        &args.replace,
    )?;
    let planned = spec::plan(&args.spec)?;
    let default = if args.cubin.is_none() { Some(Path::new("-")) } else { None };
    if let Some(path) = args.output.as_deref().or(default) {
        output::write_text(path, planned.ptx.text())?;
    }
    if let Some(path) = &args.cubin {
        let assembled = Ptxas::find()?.assemble(&planned.ptx, &planned.plan, Some(path))?;
        say(format_args!("{}: {assembled}", planned.words()));
        for warning in assembled.warnings() {
            say(format_args!("warning: {warning}"));
        }
    }
    Ok(Exit::Done)
}
