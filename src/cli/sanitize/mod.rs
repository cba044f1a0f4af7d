//! `bsr sanitize KERNEL.ptx`: the simulator for PTX of any origin, launched as a file describes.

mod launch;
mod memory;
mod npy;
mod params;
mod report;
mod results;
mod template;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use bsr_simulator::{Launch, Module, parse};
use bsr_trial::sanitize::{self, Allow, Limits, Prepared, Problem, Subject};

use super::exit::{Exit, Failure};
use super::output::{self, Outputs, Replace};
use super::{input, line, say};
use launch::LaunchFile;
use report::Format;

/// Run PTX of any origin on the simulator: races, barriers, bounds, deadlocks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr sanitize --launch-from kernel.ptx -o launch.toml
  bsr sanitize kernel.ptx --launch launch.toml
  bsr sanitize kernel.ptx --launch launch.toml --format sarif -o findings.sarif
  bsr sanitize kernel.ptx --launch launch.toml --allow \"207=the lock is polled\"

Needs no GPU and none of this project's kernels: any PTX for sm_70 to sm_90a, of Triton, CUDA, CUTLASS or by hand. The \
launch file says the grid, the block, the parameters and what buffers hold (the book has a page on it). The kernel \
runs under several schedules, which complete copies, tensor-core work and threads in orders that the PTX ISA allows: \
scrambled by the seed, as early as possible, as late as possible, then scrambled by the following seeds. A finding \
names the PTX lines and, if the text has .loc, the lines of its source. Findings that are allowed, and notes, do not \
change the exit code: 0 without findings, 1 with some, 2 for a text or a launch that cannot run.")]
pub(super) struct Args {
    /// The PTX text, `-` for standard input; or a fat binary, an object or an executable that holds PTX.
    #[arg(required_unless_present = "launch_from", value_name = "KERNEL.ptx")]
    ptx: Option<PathBuf>,
    /// How the kernel is launched.
    #[arg(long, required_unless_present = "launch_from", value_name = "LAUNCH.toml")]
    launch: Option<PathBuf>,
    /// Write a launch file with what this text tells, to be completed.
    #[arg(long, conflicts_with_all = ["ptx", "launch"], value_name = "KERNEL.ptx")]
    launch_from: Option<PathBuf>,
    /// The kernel, where the text has several.
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Schedules.
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    schedules: u32,
    /// Seed of the first scrambled schedule.
    #[arg(long, default_value = "0")]
    seed: u64,
    /// Accept findings at a line of the PTX or of the source, `LINE=REASON` or `FILE:LINE=REASON`; `LINE:CLASS=REASON`
    /// accepts one class.
    #[arg(long, value_parser = sanitize::rule, value_name = "LINE=REASON")]
    allow: Vec<Allow>,
    /// Warp instructions after which a cluster is stopped.
    #[arg(long, default_value = "50000000", value_name = "COUNT")]
    max_steps: u64,
    /// The form of the report.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Write the report, or the launch file, to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write what the buffers hold after the first schedule to this folder, as .npy files.
    #[arg(long, value_name = "FOLDER")]
    results: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let inputs = [&args.ptx, &args.launch, &args.launch_from];
    Outputs::new([("-o", args.output.as_ref())], inputs.into_iter().flatten().map(PathBuf::as_path), &args.replace)?;
    match (&args.launch_from, &args.ptx, &args.launch) {
        (Some(path), ..) => describe(path, args),
        (None, Some(ptx), Some(launch)) => sanitize(ptx, launch, args, out),
        _ => Err(Failure::bad_input("KERNEL.ptx and --launch LAUNCH.toml are needed")),
    }
}

/// Says how a kernel is named.
const NAMED: &str = "entry = \"..\" in the launch file, or --entry";

/// Reads the PTX that a file is or holds.
fn module(path: &Path, asked: Option<&str>) -> Result<Module, Failure> {
    let text = sanitize::ptx_of(&input::bytes(path)?, asked, NAMED)
        .map_err(|failure| Failure::bad_input(format!("{}: {failure}", path.display())))?;
    parse(&text).map_err(|error| Failure::bad_input(format!("{}:{error}", path.display())))
}

/// The kernel that is meant.
fn entry<'m>(module: &'m Module, asked: Option<&str>) -> Result<&'m str, Failure> {
    Ok(sanitize::entry(module, asked, NAMED)?)
}

/// `--launch-from`
fn describe(path: &Path, args: &Args) -> Result<Exit, Failure> {
    let module = module(path, args.entry.as_deref())?;
    let entry = entry(&module, args.entry.as_deref())?;
    let Some(signature) = module.signature(entry) else { return Ok(Exit::Done) };
    output::write_text(args.output.as_deref().unwrap_or(Path::new("-")), &template::template(entry, &signature))?;
    Ok(Exit::Done)
}

/// Reads a launch file; `--entry` counts more than its own.
fn launch(path: &Path, args: &Args) -> Result<LaunchFile, Failure> {
    let text = input::text(path)?;
    let mut file: LaunchFile =
        toml::from_str(&text).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))?;
    sanitize::check(&file.allow)?;
    file.entry = args.entry.clone().or(file.entry);
    Ok(file)
}

/// The launch of a file that was read from `path`, and what the file accepts.
fn prepare<'m>(module: &'m Module, file: LaunchFile, path: &Path) -> Result<(Prepared<'m>, Vec<Allow>), Failure> {
    let entry = entry(module, file.entry.as_deref())?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let (memory, placed) = memory::place(&file.buffers, folder)?;
    let params = module.signature(entry).map(|signature| signature.params).unwrap_or_default();
    let launch = Launch {
        grid: file.grid.sizes(),
        cluster: file.cluster.sizes(),
        block: file.block.sizes(),
        shared_bytes: file.shared,
        params: params::pass(&params, &file.params, &placed)?,
    };
    let buffers = results::expected(&file.buffers, &placed, &memory, folder)?;
    Ok((Prepared { module, entry, launch, memory, buffers, dependent: file.dependent }, file.allow))
}

fn sanitize(ptx: &Path, path: &Path, args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let file = launch(path, args)?;
    let module = module(ptx, file.entry.as_deref())?;
    let (ready, accepted) = prepare(&module, file, path)?;
    let limits = Limits { schedules: args.schedules, seed: args.seed, max_steps: args.max_steps };
    let mut checked = ready.run(&limits)?;
    if let Some(folder) = &args.results {
        fs::create_dir_all(folder)?;
        for sanitize::Buffer { name, place, .. } in &ready.buffers {
            let data = place.elements(&checked.left);
            fs::write(folder.join(format!("{name}.npy")), npy::file(place.element, &place.shape, &data))?;
        }
    }
    let rules: Vec<Allow> = args.allow.iter().cloned().chain(accepted).collect();
    for rule in sanitize::allow(&mut checked.problems, &rules) {
        say(format_args!("warning: no finding is at {:?}, which is allowed: {}", rule.line, rule.reason));
    }
    for line in module.prints(ready.entry) {
        say(format_args!("note: what line {line} prints is not shown"));
    }
    let path = ptx.display().to_string();
    let subject = Subject {
        path: &path,
        entry: ready.entry,
        schedules: checked.schedules,
        steps: checked.steps,
        seconds: checked.seconds,
    };
    write(&checked.problems, &subject, args, out)?;
    Ok(if checked.problems.iter().any(Problem::counts) { Exit::Wrong } else { Exit::Done })
}

/// Writes the report in the form that is asked for.
fn write(problems: &[Problem], subject: &Subject<'_>, args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut text = Vec::new();
    match args.format {
        Format::Text => {
            line(&mut text, "kernel", format_args!("{} of {}", subject.entry, subject.path))?;
            line(&mut text, "schedules", subject.schedules.join(", "))?;
            sanitize::text(problems, subject, &mut text)?;
            line(&mut text, "verdict", sanitize::verdict(problems, subject))?;
        }
        Format::Json => writeln!(text, "{:#}", sanitize::as_json(problems, subject))?,
        Format::Sarif => writeln!(text, "{:#}", report::sarif(problems, subject))?,
    }
    match &args.output {
        Some(path) => output::write_text(path, &String::from_utf8_lossy(&text)).map(|_| ()),
        None => Ok(out.write_all(&text)?),
    }
}
