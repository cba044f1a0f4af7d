//! The `bsr` command: its subcommands, one file each, and what they share.
//!
//! ```text
//! plan, emit          SPEC -> Plan -> PTX                      (ptxas)
//! run, bench          SPEC, PROBLEM -> Subject -> Case -> time  (bsr-trial; dense, report)
//! run, check          SPEC, PROBLEM -> Subject -> simulator     (bsr-trial; simulate)
//! sanitize            PTX, launch file -> simulator -> findings
//! profile             SPEC, PROBLEM -> Subject -> counters      (ncu)
//! trace               SPEC, PROBLEM -> Subject -> timeline      (simulate)
//! convert             FILE -> blocks -> FILE                   (weights)
//! advise              FILE -> blocks -> predicted, measured   (weights; dense)
//! space               SPACE -> points: kernels, and why others are none
//! report_page         records -> tables, a page             (the tuner's report)
//! sweep, merge, export, loss  space -> points -> backends -> database   (serve: a backend's process)
//! doctor              what works on this machine, and its roofs
//! ```
//!
//! Every file that is written goes through `output`, every text that is read through `input`, every database that is read
//! through `database`, and everything that is printed through `escape`.

mod advise;
mod attention;
mod attention_blocks;
mod backend;
mod bench;
mod block_sizes;
mod calibrate;
mod check;
mod check_args;
mod completions;
mod convert;
mod database;
mod dense;
mod device;
mod doctor;
mod emit;
mod escape;
mod exit;
mod explain;
mod export;
mod input;
mod interrupt;
mod invocation;
mod loss;
mod merge;
mod output;
mod parallel;
mod plan;
mod print;
mod problem;
mod profile;
mod progress;
mod ptx;
mod ptxas;
mod report;
mod report_page;
mod roofs;
mod run;
mod sanitize;
mod serve;
mod simulate;
mod space;
mod spec;
mod sweep;
mod table;
mod toolkit;
mod trace;
mod unquoted;
mod weights;
mod work_args;

use std::borrow::Cow;
use std::error::Error as _;
use std::ffi::OsString;
use std::io::{Write as _, stdout};
use std::process::ExitCode;

use bsr_codegen::spec::Key;
use clap::{CommandFactory as _, Parser, Subcommand};

use exit::{Exit, Failure, cannot_write};
use print::{line, say};

/// Examples under `bsr --help`.
const EXAMPLES: &str = "\
Examples:
  bsr plan \"bm = 512, bn = 128, bk = 112\"
  bsr emit \"bm = 512, bn = 128, bk = 112\" -o spmm.ptx --cubin spmm.cubin
  bsr run \"bm = 512, bn = 128, bk = 112\" --m 1024 --n 512 --k 1120 --pattern topk:4
  bsr check \"bm = 512, bn = 128, bk = 112\"
  bsr sanitize kernel.ptx --launch launch.toml
  bsr trace \"bm = 512, bn = 128, bk = 112\" -o pipeline.json
  bsr bench \"bm = 128, bn = 256, bk = 64\" --m 8192 --n 8192 --k 8192 --pattern random:0.25
  bsr convert layer.safetensors --tensor up.weight --block 128x64 --keep 0.25 -o up.npz
  bsr advise matrix.mtx --n 4096
  bsr space hopper-f16 --kernel \"bm = 512, bk = 112\"
  bsr report records.jsonl -o report.html
  bsr sweep --space \"bm = 512, bn = [128, 256], bk = 112, stages = 2..=5\" --m 8192 --n 8192 --k 8288 --pattern topk:16
  bsr doctor

Exit codes:
  0 done    1 wrong result, finding or failed check    2 bad input    3 no device    130 Ctrl-C";

/// The most threads that `RAYON_NUM_THREADS` starts, on machines with fewer cores.
const MOST_THREADS: usize = 1024;

/// The most columns of the help.
const HELP_WIDTH: usize = 100;

/// The end of `bsr --help`: the keys of a spec, and the examples.
fn keys_and_examples() -> String {
    let line = |key: Key| format!("  {:<12} {}\n", key.as_str(), hanging(key.meaning(), 15));
    format!("Keys of a SPEC:\n{}\n{EXAMPLES}", Key::ALL.map(line).concat())
}

/// A sentence whose further lines begin in column `indent`, in the width of the help.
fn hanging(sentence: &str, indent: usize) -> String {
    let width = table::columns().map_or(HELP_WIDTH, |columns| HELP_WIDTH.min(columns.into()));
    let (mut text, mut column) = (String::new(), indent);
    for word in sentence.split(' ') {
        let wide = word.chars().count();
        if column > indent && column + 1 + wide > width {
            text.push_str(&format!("\n{:indent$}", ""));
            column = indent;
        } else if column > indent {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += wide;
    }
    text
}

/// Plan, emit, run, check and time block-sparse GEMM kernels: C[M, N] = A[M, K] * B[K, N], with A in blocks.
///
/// A SPEC is what the attribute `#[bsr_kernel(..)]` takes: `bm = 512, bn = 128, bk = 112` and any of the keys below. The path of
/// a .toml file with the same keys may be given in place of a SPEC, or `-` for standard input.
#[derive(Debug, Parser)]
#[command(name = "bsr", version, after_help = EXAMPLES, after_long_help = keys_and_examples(), max_term_width = HELP_WIDTH)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan::Args),
    Emit(emit::Args),
    Run(run::Args),
    Trace(trace::Args),
    Check(check::Args),
    Sanitize(sanitize::Args),
    Bench(bench::Args),
    Profile(profile::Args),
    Convert(convert::Args),
    Advise(advise::Args),
    Space(space::Args),
    Explain(explain::Args),
    #[command(alias = "regret")]
    Loss(loss::Args),
    Report(report_page::Args),
    Sweep(sweep::Args),
    Calibrate(calibrate::Args),
    Merge(merge::Args),
    Export(export::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    #[command(name = "backend", hide = true)]
    Serve(serve::Args),
}

/// Does what the arguments say, `plan` and its spec for instance, and answers with the exit code.
///
/// `program` is what starts the command once more: a sweep measures in processes of its own. It is empty where the
/// command is the program that runs.
pub fn run(program: Vec<OsString>, args: Vec<OsString>) -> ExitCode {
    let line: Vec<OsString> = [OsString::from("bsr")].into_iter().chain(args.iter().cloned()).collect();
    invocation::remember(program, args);
    if let Err(failure) = threads() {
        return failure.report().into();
    }
    let command = match Cli::try_parse_from(line) {
        Ok(cli) => cli.command,
        Err(error) => return refused(&error),
    };
    if let Command::Serve(args) = command {
        // Writes to standard output from several threads.
        return serve::run(&args).map_or_else(|failure| failure.report().into(), Into::into);
    }
    if !matches!(command, Command::Sweep(_)) {
        interrupt::take_over();
    }
    let mut out = escape::Escaped::new(stdout().lock());
    let outcome = match command {
        Command::Plan(args) => plan::run(&args, &mut out),
        Command::Emit(args) => emit::run(&args),
        Command::Run(args) => run::run(&args, &mut out),
        Command::Trace(args) => trace::run(&args, &mut out),
        Command::Check(args) => check::run(&args, &mut out),
        Command::Sanitize(args) => sanitize::run(&args, &mut out),
        Command::Bench(args) => bench::run(&args, &mut out),
        Command::Profile(args) => profile::run(&args, &mut out),
        Command::Convert(args) => convert::run(&args, &mut out),
        Command::Advise(args) => advise::run(&args, &mut out),
        Command::Space(args) => space::run(&args, &mut out),
        Command::Explain(args) => explain::run(&args, &mut out),
        Command::Loss(args) => loss::run(&args, &mut out),
        Command::Report(args) => report_page::run(&args, &mut out),
        Command::Sweep(args) => sweep::run(&args, &mut out),
        Command::Calibrate(args) => calibrate::run(&args, &mut out),
        Command::Merge(args) => merge::run(&args, &mut out),
        Command::Export(args) => export::run(&args, &mut out),
        Command::Doctor(args) => doctor::run(&args, &mut out),
        Command::Completions(args) => completions::run(&args, &mut Cli::command()),
        Command::Serve(args) => serve::run(&args),
    };
    let flushed = out.flush().map_err(Failure::from);
    match outcome.and_then(|exit| flushed.map(|()| exit)) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report().into(),
    }
}

/// Starts as many threads as the environment asks for, if it does: rayon would panic in the first parallel loop where the
/// system has not so many.
fn threads() -> Result<(), Failure> {
    let Ok(asked) = std::env::var("RAYON_NUM_THREADS") else { return Ok(()) };
    let Some(count) = asked.parse().ok().filter(|count| *count > 0) else { return Ok(()) };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let most = MOST_THREADS.max(cores);
    let wrong = |fact: String| {
        Failure::bad_input(format!(
            "RAYON_NUM_THREADS = {asked}: {fact}\n  help: unset it, or at most {cores}, the cores"
        ))
    };
    if count > most {
        return Err(wrong(format!("more than {most} threads are not started")));
    }
    // Of a process that has threads already the pool is there.
    match rayon::ThreadPoolBuilder::new().num_threads(count).build_global() {
        Err(error) if error.source().is_some() => Err(wrong(error.to_string())),
        _ => Ok(()),
    }
}

/// Prints help, or what is wrong with the command line: escaped where that holds what a terminal would obey.
fn refused(error: &clap::Error) -> ExitCode {
    let args: Vec<OsString> = invocation::args().cloned().collect();
    if error.kind() == clap::error::ErrorKind::UnknownArgument
        && let Some(line) = unquoted::quoted(&args)
    {
        let help = format!("put the spec in quotes: {line}");
        return Failure::bad_input(format!("a spec is one argument, and the shell made several of it\n  help: {help}"))
            .report()
            .into();
    }
    let text = error.render().to_string();
    match escape::escaped(&text) {
        Cow::Borrowed(_) => drop(error.print()),
        Cow::Owned(text) => say(text.trim_end()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::BadInput as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
