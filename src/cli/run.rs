//! `bsr run SPEC`: multiplies once, compares the result with the reference, and reports the time.

use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bsr::bench::{InterleaveOptions, interleave};
use bsr::gpu::Device;
use bsr_trial::gpu::Case;
use bsr_trial::problem::fill_in_words;
use bsr_trial::request::Defaults;
use bsr_trial::subject::Subject;
use bsr_trial::verify::{Tolerance, Verification};
use bsr_tuner::pick::Gpu;

use super::device::{self, DeviceChoice, Opened};
use super::exit::{Exit, Failure};
use super::output;
use super::progress::Progress;
use super::ptxas::Ptxas;
use super::spec::Planned;
use super::work_args::WorkArgs;
use super::{attention, attention_blocks, line, say, simulate};

/// Multiply, on a GPU or on the simulator, and compare with an f64 reference.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr run \"bm = 512, bn = 128, bk = 112\"
  bsr run \"bm = 512, bn = 128, bk = 112\" --m 1024 --n 512 --k 1120 --pattern topk:4
  bsr run \"bm = 64, bn = 64, bk = 64, dtype = bf16\" --matrix weights.smtx --n 1000

  bsr run \"bm = 512, bn = 128, bk = 112\" --device sim --trace pipeline.json
  bsr emit SPEC -o k.ptx; edit k.ptx; bsr check SPEC --ptx k.ptx; bsr bench SPEC --ptx k.ptx

Of an attention whose spec says nothing but what is computed, the cost model chooses how many heads share a tile, how far \
keys are divided, and the keys of a step, where that should be faster: `chosen` names the kernel. Of one without bm and bk it \
chooses the blocks, too, where the mask is a rule of pairs: --pattern causal, documents:1000 or random:1.

C is filled with NaN before the launch (i32: with -2139062144). A result outside the tolerance exits with 1. Without \
a GPU the PTX runs on the simulator, which computes the same product and exits with 1 on a race or another defect; \
it does not predict the speed. --device gpu requires a GPU: if there is none, the PTX is emitted, it is assembled if \
ptxas is found, and the exit code is 3.")]
pub(super) struct Args {
    /// The kernel: `bm = .., bn = .., bk = ..`, or the path of a .toml file.
    spec: String,
    /// Where to run: gpu, gpu:N, sim (the simulator), or auto: the first GPU, or the simulator if there is none.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Write a trace of the simulated pipeline to this file, for ui.perfetto.dev or chrome://tracing; needs
    /// --device sim. Its times are cycles of the simulator's cost model and do not predict those of a GPU: the viewer shows
    /// a cycle as a microsecond.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the PTX to this file; `-` is standard output, and all other output then goes to standard error.
    #[arg(long, value_name = "FILE")]
    write_ptx: Option<PathBuf>,
    #[command(flatten)]
    work: WorkArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let files = [("--trace", args.trace.as_ref()), ("--write-ptx", args.write_ptx.as_ref())];
    let outputs = args.work.outputs(files, [args.spec.as_str()])?;
    let out = &mut *outputs.answers(out);
    let planned = args.work.ptx.plan(&attention_blocks::filled_on(&args.spec, &args.work.problem, args.device)?)?;
    if args.trace.is_some() && args.device != DeviceChoice::Simulator {
        return Err(Failure::bad_input("the simulator alone writes a trace\n  help: --device sim"));
    }
    let opened = match args.device.open(planned.plan.arch().target) {
        Err(failure) if failure.exit() != Exit::NoDevice => return Err(failure),
        opened => opened,
    };
    let defaults = match opened {
        Ok(Opened::Simulator(_)) => Defaults::Simulator,
        _ => Defaults::Gpu,
    };
    let subject = args.work.problem.subject(defaults, planned.spec())?;
    let about = subject.about(planned.spec())?;
    let found = chosen(args, &planned, &*subject, opened.as_ref().ok())?;
    line(out, "spec", planned.spec())?;
    let planned = match found {
        Some((chosen, words)) => {
            line(out, "chosen", words)?;
            chosen
        }
        None => planned,
    };
    line(out, "problem", &about.problem)?;
    line(out, about.name, &about.sparse)?;
    if let Some(fill_in) = &about.fill_in {
        line(out, "fill-in", fill_in_words(fill_in))?;
    }
    line(out, "kernel", planned.words())?;
    write_ptx(args, &planned, out)?;
    let check = args.work.check.verification();
    match opened {
        Ok(Opened::Gpu(device)) => on(&device, planned, subject, check, out),
        Ok(Opened::Simulator(why)) => {
            out.flush()?;
            if let Some(none) = why {
                say(format_args!("no CUDA device ({}): running the PTX on the simulator", none.first_line()));
            }
            let products = about.products;
            if products > 1 {
                line(out, "list", format_args!("{products} products in one launch, each with a pattern of its own"))?;
            }
            simulate::run(&planned, &*subject, about.flops, check, args.trace.as_deref(), out)
        }
        Err(none) => without(&none, args, &planned, out),
    }
}

/// The kernel that is chosen where the spec leaves that open, and the text is its own.
fn chosen(
    args: &Args,
    planned: &Planned,
    subject: &dyn Subject,
    opened: Option<&Opened>,
) -> Result<Option<(Planned, String)>, Failure> {
    if args.work.ptx.path().is_some() {
        return Ok(None);
    }
    let gpu = match opened {
        Some(Opened::Gpu(device)) => device.info().into(),
        _ => Gpu::default(),
    };
    attention::chosen(planned.spec(), subject, gpu)
}

fn on(
    device: &Device,
    planned: Planned,
    subject: Rc<dyn Subject>,
    check: Verification,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let progress = Progress::new();
    let mut case = subject.on(device, check.rows, &progress.steps()).case(planned)?;
    progress.step("multiplying and comparing");
    let verdict = case.run()?;
    progress.done();

    line(out, "device", device::words(device))?;
    line(out, "checked", format_args!("{} against the f64 reference", case.rows))?;
    let tolerance = case.tolerance(check.tolerance);
    verdict.verify(case.planned.ptx.entry(), tolerance)?;
    line(out, "result", verdict.words(tolerance))?;
    time(&mut case, device, tolerance, out)
}

/// Writes the PTX where that is asked for.
fn write_ptx(args: &Args, planned: &Planned, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(path) = &args.write_ptx else { return Ok(()) };
    output::write_text(path, planned.ptx.text())?;
    Ok(line(out, "PTX", format_args!("{} B written to {}", planned.ptx.text().len(), path.display()))?)
}

/// Times the checked kernel, and checks what the timed launches left.
fn time(case: &mut Case, device: &Device, tolerance: Tolerance, out: &mut dyn Write) -> Result<Exit, Failure> {
    let opts = InterleaveOptions {
        min_repeats: 10,
        max_repeats: 100,
        time_limit: Duration::from_secs(2),
        ..InterleaveOptions::default()
    };
    case.poison()?;
    let timings = interleave(&mut [case.candidate()], &opts, device)?;
    case.verdict()?.verify(case.planned.ptx.entry(), tolerance)?;
    if let Some(timing) = timings.first() {
        let us = timing.summary();
        line(
            out,
            "time",
            format_args!(
                "{:.1} us, median of {} from a cold L2 cache (p10 {:.1}, p90 {:.1})",
                us.median, us.samples, us.p10, us.p90
            ),
        )?;
        let (tflops, gbs) = (timing.tflops(case.flops), case.hbm_gbs(us.median));
        line(out, "rate", format_args!("{tflops:.1} TFLOP/s executed, {gbs:.0} GB/s"))?;
    }
    Ok(Exit::Done)
}

/// Without a device: says so, and shows that the kernel can be had all the same.
fn without(none: &Failure, args: &Args, planned: &Planned, out: &mut dyn Write) -> Result<Exit, Failure> {
    out.flush()?;
    say(format_args!("no device, so nothing is multiplied: {}", none.first_line()));
    if args.write_ptx.is_none() {
        let lines = planned.ptx.text().lines().count();
        line(out, "PTX", format_args!("{} B, {lines} lines; --write-ptx FILE writes them", planned.ptx.text().len()))?;
    }
    match Ptxas::find() {
        Ok(ptxas) => {
            let assembled = ptxas.assemble(&planned.ptx, &planned.plan, None)?;
            let version = ptxas.version().unwrap_or_default();
            line(out, "ptxas", format_args!("{version} assembles it: {assembled}"))?;
            assembled.warnings().iter().try_for_each(|warning| line(out, "warning", warning))?;
        }
        Err(missing) => line(out, "ptxas", format_args!("not assembled: {}", missing.first_line()))?,
    }
    Ok(Exit::NoDevice)
}
