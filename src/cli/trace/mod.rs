//! `bsr trace SPEC`: what each role of a kernel's CTAs does and when, recorded by the kernel itself.
//!
//! ```text
//! SPEC, PROBLEM --Subject--> records --Timeline--> trace (JSON) --+--> table, file, picture
//! FILE -----------------------------------------------------------+--> compared with another one
//! ```

mod compare;
mod ctas;
mod record;
mod side;

use std::io::Write;
use std::path::{Path, PathBuf};

use bsr::probes::{MOST_RECORDS, Probes};
use bsr::timeline::Summary;
use bsr_tuner::Traced;
use bsr_tuner::report::timeline_picture;
use serde_json::Value;

use super::device::DeviceChoice;
use super::exit::{Exit, Failure};
use super::problem::ProblemArgs;
use super::work_args::WorkArgs;
use super::{line, output, spec};
use ctas::Ctas;
use side::Side;
pub(super) use side::{problem_words, read, unreadable};

/// Trace what each role of a kernel's CTAs does and when, on a GPU or on the simulator.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr trace \"bm = 512, bn = 128, bk = 112\" -o pipeline.json
  bsr trace \"bm = 64, bn = 256, bk = 64\" --m 8192 --n 8192 --k 8192 --ctas 0..8 -o pipeline.json
  bsr trace \"bm = 512, bn = 128, bk = 112\" --device sim -o simulated.json
  bsr trace pipeline.json --svg pipeline.svg
  bsr trace --compare pipeline.json simulated.json
  bsr trace --compare \"bm = 64, bn = 64, bk = 64\" \"bm = 64, bn = 64, bk = 64, stages = 2\" --m 4096 --n 4096 --k 4096

The kernel is emitted again with probes: one thread of each role (a producer's warp, a consumer's warpgroup) writes \
a record at the end of every wait, load, WGMMA group, release, epilogue step, tile switch and split-K fix-up. The \
result is still compared with the f64 reference, and on a GPU the kernel is timed with and without probes. \
ui.perfetto.dev and chrome://tracing open the file. The simulator's times are cycles of its cost model and do not \
predict those of a GPU: the viewer shows a cycle as a microsecond.")]
pub(super) struct Args {
    /// The kernel: `bm = .., bn = .., bk = ..`, or the path of a .toml file, or a trace file to read.
    #[arg(required_unless_present = "compare")]
    spec: Option<String>,
    /// Where to run: gpu, gpu:N, sim (the simulator), or auto: the first GPU, or the simulator if there is none.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// The CTAs that write records: 5, 0..4 (four of them) or 0..=3.
    #[arg(long, default_value = "0..4")]
    ctas: Ctas,
    /// Capacity of each role, in records; further ones are only counted.
    #[arg(long, default_value_t = RECORDS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RECORDS)))]
    records: u32,
    /// Write the trace to this file; `-` is standard output, and all other output then goes to standard error.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the trace as a picture to this file: the whole launch, and a part of it enlarged.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the PTX with the probes to this file; --ptx accepts an edited copy.
    #[arg(long, value_name = "FILE")]
    write_ptx: Option<PathBuf>,
    /// Compare where the time of each role goes in two kernels. Each is a SPEC, which is traced now, or a trace file. Two SPECs
    /// are traced on one problem; a SPEC and a file, on the problem of the file. -o writes both traces to one file, CTA by CTA.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["spec", "svg", "ptx", "write_ptx"])]
    compare: Option<Vec<String>>,
    #[command(flatten)]
    work: WorkArgs,
}

impl Args {
    /// Of a kernel and a problem, and otherwise as without flags.
    pub(super) fn of(spec: &str, device: DeviceChoice, problem: &ProblemArgs) -> Self {
        Self {
            spec: Some(spec.to_owned()),
            device,
            ctas: Ctas { first: 0, count: 4 },
            records: RECORDS,
            output: None,
            svg: None,
            write_ptx: None,
            compare: None,
            work: WorkArgs::of(problem),
        }
    }

    fn probes(&self) -> Probes {
        Probes { first: self.ctas.first, ctas: self.ctas.count, records: self.records }
    }
}

/// Records that each role has room for.
const RECORDS: u32 = 16_000;

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some([a, b]) = args.compare.as_deref() {
        return compare::run(args, [a, b], out);
    }
    let argument = args.spec.as_deref().unwrap_or_default();
    let files = [("-o", args.output.as_ref()), ("--svg", args.svg.as_ref()), ("--write-ptx", args.write_ptx.as_ref())];
    let outputs = args.work.outputs(files, [argument])?;
    let out = &mut *outputs.answers(out);
    match Side::of(argument) {
        Side::File(path) => of_file(&path, args, out),
        Side::Spec(text) => of_spec(&text, args, out),
    }
}

/// Traces a kernel.
fn of_spec(text: &str, args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let planned = spec::plan(text)?;
    let probed = args.work.ptx.read(planned.probed(args.probes())?)?;
    if let Some(path) = &args.write_ptx {
        output::write_text(path, probed.ptx.text())?;
        line(out, "PTX", format_args!("{} B written to {}", probed.ptx.text().len(), path.display()))?;
    }
    if probed.file.is_some() {
        line(out, "kernel", format_args!("{}, beside the emitted one without probes", probed.words()))?;
    }
    let opened = record::open(args.device, &planned)?;
    let subject = record::requested(&args.work, &planned, &opened)?;
    let trace = record::record(&subject, args.work.check.verification(), (planned, probed), &opened, out)?;
    if let Some(path) = &args.output {
        let text = trace.to_string();
        output::write_text(path, &text)?;
        let unit = if Summary::of_trace(&trace)?.unit == "us" { "" } else { "; each cycle is shown as 1 us" };
        let what = format!("{} B written to {}, for ui.perfetto.dev{unit}", text.len(), path.display());
        line(out, "trace", what)?;
    }
    draw(&trace, args, out)?;
    print_summary(&trace, out)
}

/// Reads a trace.
fn of_file(path: &Path, args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    if args.output.is_some() || args.write_ptx.is_some() || args.work.ptx.path().is_some() {
        let fact = format!("{} is read as a trace, which is written already and has no PTX", path.display());
        return Err(Failure::bad_input(format!(
            "{fact}\n  help: --svg draws it; a SPEC has a `=`, or is a .toml file"
        )));
    }
    let trace = side::read(path)?;
    let summary = Summary::of_trace(&trace).map_err(|error| side::unreadable(path, &error))?;
    line(out, "spec", summary.spec)?;
    if let Some(words) = side::words(&trace) {
        line(out, "device", words)?;
    }
    draw(&trace, args, out)?;
    print_summary(&trace, out)
}

/// Draws the picture that is asked for.
fn draw(trace: &Value, args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(path) = &args.svg else { return Ok(()) };
    let nothing = || Failure::bad_input("there is nothing to draw: no role of the trace has a slice");
    let picture = timeline_picture(&Traced::read(trace)?).ok_or_else(nothing)?;
    output::write_text(path, &picture)?;
    Ok(line(out, "picture", format_args!("{} B written to {}", picture.len(), path.display()))?)
}

/// What the time went to.
fn print_summary(trace: &Value, out: &mut dyn Write) -> Result<Exit, Failure> {
    writeln!(out, "\n{}", Summary::of_trace(trace)?)?;
    Ok(Exit::Done)
}
