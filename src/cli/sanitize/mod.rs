//! `bsr sanitize KERNEL.ptx`: the simulator for PTX of any origin, launched as a file describes.

mod classes;
mod element;
mod findings;
mod launch;
mod memory;
mod npy;
mod params;
mod report;
mod results;
mod template;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bsr_simulator::{GlobalMemory, Launch, Module, Options, parse, simulate};
use bsr_trial::simulate::{order, schedule};

use super::exit::{Exit, Failure};
use super::output::{self, Outputs, Replace};
use super::{input, line, say};
use classes::Class;
use findings::Problem;
use launch::{Allow, LaunchFile};
use memory::Placed;
use report::{Format, Subject};
use results::Expected;

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
    /// The PTX text; `-` is standard input.
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
    #[arg(long, value_parser = findings::rule, value_name = "LINE=REASON")]
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

/// Reads a text.
fn module(path: &Path) -> Result<Module, Failure> {
    let text = input::text(path)?;
    parse(&text).map_err(|error| Failure::bad_input(format!("{}:{error}", path.display())))
}

/// The kernel that is meant.
fn entry<'m>(module: &'m Module, asked: Option<&'m str>) -> Result<&'m str, Failure> {
    let all: Vec<&str> = module.entries().collect();
    match (asked, all.as_slice()) {
        (Some(name), _) if all.contains(&name) => Ok(name),
        (Some(name), _) => {
            Err(Failure::bad_input(format!("the text has no kernel `{name}`; it has {}", all.join(", "))))
        }
        (None, [one]) => Ok(one),
        (None, []) => Err(Failure::bad_input("the text has no kernel (.entry)")),
        (None, many) => {
            let fact = format!("the text has {} kernels: {}", many.len(), many.join(", "));
            Err(Failure::bad_input(format!("{fact}\n  help: entry = \"..\" in the launch file, or --entry")))
        }
    }
}

/// `--launch-from`
fn describe(path: &Path, args: &Args) -> Result<Exit, Failure> {
    let module = module(path)?;
    let entry = entry(&module, args.entry.as_deref())?;
    let Some(signature) = module.signature(entry) else { return Ok(Exit::Done) };
    output::write_text(args.output.as_deref().unwrap_or(Path::new("-")), &template::template(entry, &signature))?;
    Ok(Exit::Done)
}

/// A launch that is ready to run.
struct Ready<'m> {
    module: &'m Module,
    entry: &'m str,
    file: LaunchFile,
    launch: Launch,
    memory: GlobalMemory,
    placed: BTreeMap<String, Placed>,
    expected: Expected,
}

fn prepare<'m>(module: &'m Module, path: &Path, args: &'m Args) -> Result<Ready<'m>, Failure> {
    let text = input::text(path)?;
    let file: LaunchFile =
        toml::from_str(&text).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))?;
    findings::check(&file.allow)?;
    let asked = args.entry.as_deref().or(file.entry.as_deref()).map(str::to_owned);
    let name = entry(module, asked.as_deref())?.to_owned();
    // The name lives as long as the module.
    let entry = module.entries().find(|entry| *entry == name).unwrap_or_default();
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
    let expected = Expected::new(&file.buffers, &placed, &memory, folder)?;
    Ok(Ready { module, entry, file, launch, memory, placed, expected })
}

fn sanitize(ptx: &Path, path: &Path, args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let module = module(ptx)?;
    let mut ready = prepare(&module, path, args)?;
    let start = Instant::now();
    let (mut problems, mut steps, mut names) = (Vec::new(), 0, Vec::new());
    for number in 0..args.schedules {
        let options = Options {
            max_steps: args.max_steps,
            max_findings: Options::default().max_findings,
            dependent: ready.file.dependent,
            ..schedule(args.seed, number)
        };
        let name = order(&options);
        steps += once(&mut ready, &options, &name, args.results.as_deref().filter(|_| number == 0), &mut problems)?;
        names.push(name);
    }
    let rules: Vec<Allow> = args.allow.iter().chain(&ready.file.allow).cloned().collect();
    for rule in findings::allow(&mut problems, &rules) {
        say(format_args!("warning: no finding is at {:?}, which is allowed: {}", rule.line, rule.reason));
    }
    for line in module.prints(ready.entry) {
        say(format_args!("note: what line {line} prints is not shown"));
    }
    let path = ptx.display().to_string();
    let subject =
        Subject { path: &path, entry: ready.entry, schedules: names, steps, seconds: start.elapsed().as_secs_f64() };
    write(&problems, &subject, args, out)?;
    Ok(if problems.iter().any(Problem::counts) { Exit::Wrong } else { Exit::Done })
}

/// One schedule; the warp instructions that it took.
fn once(
    ready: &mut Ready<'_>,
    options: &Options,
    name: &str,
    results: Option<&Path>,
    problems: &mut Vec<Problem>,
) -> Result<u64, Failure> {
    let mut memory = ready.memory.clone();
    let report = simulate(ready.module, ready.entry, &ready.launch, &mut memory, options)
        .map_err(|error| Failure::bad_input(format!("the launch cannot be made: {error}")))?;
    let stopped = findings::is_stopped(&report.findings);
    let clusters = ready.launch.cluster != [1; 3];
    findings::add(problems, report.findings, name, (ready.module, clusters));
    if !stopped {
        let wrong = ready.expected.compare(&ready.file.buffers, &ready.placed, &memory);
        wrong.into_iter().for_each(|(class, message)| add_wrong(problems, class, message, name));
    }
    if let Some(folder) = results {
        fs::create_dir_all(folder)?;
        for (buffer, place) in &ready.placed {
            let data = place.elements(memory.bytes(place.id));
            fs::write(folder.join(format!("{buffer}.npy")), npy::file(place.element, &place.shape, &data))?;
        }
    }
    Ok(report.cost.steps)
}

fn add_wrong(problems: &mut Vec<Problem>, class: Class, message: String, schedule: &str) {
    let buffer = |message: &str| message.split(": ").next().unwrap_or_default().to_owned();
    let same = |problem: &&mut Problem| problem.class == class && buffer(&problem.message) == buffer(&message);
    match problems.iter_mut().find(same) {
        Some(known) => {
            known.times += 1;
            known.schedules.push(schedule.to_owned());
        }
        None => problems.push(Problem {
            class,
            message,
            places: Vec::new(),
            schedules: vec![schedule.to_owned()],
            times: 1,
            allowed: None,
        }),
    }
}

/// Writes the report in the form that is asked for.
fn write(problems: &[Problem], subject: &Subject<'_>, args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut text = Vec::new();
    match args.format {
        Format::Text => {
            line(&mut text, "kernel", format_args!("{} of {}", subject.entry, subject.path))?;
            line(&mut text, "schedules", subject.schedules.join(", "))?;
            report::text(problems, subject, &mut text)?;
            line(&mut text, "verdict", verdict(problems, subject))?;
        }
        Format::Json => writeln!(text, "{:#}", report::as_json(problems, subject))?,
        Format::Sarif => writeln!(text, "{:#}", report::sarif(problems, subject))?,
    }
    match &args.output {
        Some(path) => output::write_text(path, &String::from_utf8_lossy(&text)).map(|_| ()),
        None => Ok(out.write_all(&text)?),
    }
}

fn verdict(problems: &[Problem], subject: &Subject<'_>) -> String {
    let count = problems.iter().filter(|problem| problem.counts()).count();
    let others = problems.len() - count;
    let rest = if others == 0 { String::new() } else { format!(", {others} allowed or noted") };
    let work = format!("{} warp instructions in {:.1} s", subject.steps, subject.seconds);
    match count {
        0 => format!("passes: no finding{rest}; {work}"),
        1 => format!("FAILS: 1 finding{rest}; {work}"),
        many => format!("FAILS: {many} findings{rest}; {work}"),
    }
}
