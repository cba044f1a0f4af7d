//! A kernel that is traced, on the simulator or on a GPU.

use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use bsr::bench::{InterleaveOptions, Timing, interleave};
use bsr::gpu::{Device, FunctionAttributes};
use bsr::simulated::{Options, Schedule};
use bsr::timeline::{Clock, Timeline};
use bsr_trial::gpu::Case;
use bsr_trial::request::Defaults;
use bsr_trial::simulate::{SimulatedKernel, order};
use bsr_trial::subject::Subject;
use bsr_trial::verify::Verification;
use bsr_tuner::{DeviceId, DeviceKind, TraceOf, TracedTimes};
use serde_json::Value;

use super::super::device::{self, DeviceChoice, Opened};
use super::super::exit::Failure;
use super::super::progress::Progress;
use super::super::simulate::{self, Done};
use super::super::spec::Planned;
use super::super::work_args::WorkArgs;
use super::super::{line, say};

/// A kernel and the same with probes.
pub(super) type Both = (Planned, Planned);

/// What a GPU left of a kernel and the same with probes.
struct OnGpu {
    /// Of both, in this order.
    timings: Vec<Timing>,
    /// Of the kernel with probes, unless there was nothing to launch.
    attributes: Option<FunctionAttributes>,
    words: Option<Vec<u32>>,
}

/// The problem that the flags ask for; what they leave open is for a kernel and a device.
///
/// # Errors
/// Bad input: a problem that does not exist.
pub(super) fn requested(args: &WorkArgs, planned: &Planned, opened: &Opened) -> Result<Rc<dyn Subject>, Failure> {
    let is_simulated = matches!(opened, Opened::Simulator(_));
    let defaults = if is_simulated { Defaults::Simulator } else { Defaults::Gpu };
    args.problem.subject(defaults, planned.spec())
}

/// What traces a kernel.
///
/// # Errors
/// No device: the one that is asked for is not there.
pub(super) fn open(device: DeviceChoice, planned: &Planned) -> Result<Opened, Failure> {
    let opened = device.open(planned.plan.arch().target)?;
    if let Opened::Simulator(Some(none)) = &opened {
        say(format_args!("no CUDA device ({}): tracing on the simulator", none.first_line()));
    }
    Ok(opened)
}

/// What a kernel wrote into its rings, and how.
struct Recorded {
    words: Option<Vec<u32>>,
    clock: Clock,
    device: DeviceId,
    times: Option<TracedTimes>,
}

/// Has a kernel record what it does: the trace, with what it is of.
///
/// # Errors
/// Wrong: a wrong result or a finding. Bad input: a problem that cannot be had, and one with nothing to compute.
pub(super) fn record(
    subject: &Rc<dyn Subject>,
    check: Verification,
    both: Both,
    opened: &Opened,
    out: &mut dyn Write,
) -> Result<Value, Failure> {
    let (workload, plan) = (subject.workload(both.0.spec()), both.1.plan.clone());
    let about = subject.about(both.0.spec())?;
    line(out, "spec", both.0.spec())?;
    line(out, "problem", about.problem)?;
    line(out, about.name, about.sparse)?;
    out.flush()?;
    let Recorded { words, clock, device, times } = match opened {
        Opened::Gpu(device) => on(device, Rc::clone(subject), check, both, out)?,
        Opened::Simulator(_) => {
            simulate::warning(about.flops).iter().for_each(say);
            simulated(&**subject, check, &both.1, workload.seed, out)?
        }
    };
    let nothing = || Failure::bad_input("nothing is launched, so nothing is recorded: the result is empty");
    let timeline = Timeline::new(&plan, &words.ok_or_else(nothing)?, clock)?;
    let mut trace = timeline.perfetto();
    TraceOf::now(workload, device, times).write(&mut trace);
    let numbers: Vec<String> = timeline.ctas.iter().map(|cta| cta.number.to_string()).collect();
    line(out, "CTAs", numbers.join(", "))?;
    Ok(trace)
}

fn on(
    device: &Device,
    subject: Rc<dyn Subject>,
    check: Verification,
    both: Both,
    out: &mut dyn Write,
) -> Result<Recorded, Failure> {
    let options = InterleaveOptions {
        min_repeats: 10,
        max_repeats: 50,
        time_limit: Duration::from_secs(2),
        ..InterleaveOptions::default()
    };
    let OnGpu { timings, attributes, words } = timed(device, subject, check, both, &options)?;
    line(out, "device", device::words(device))?;
    let times = times(&timings);
    if let Some(times) = times {
        line(out, "time", times.words())?;
    }
    attributes.iter().for_each(warn_of_spills);
    let info = device.info();
    let device = DeviceId { kind: DeviceKind::Gpu, name: info.name.clone(), driver: info.driver() };
    Ok(Recorded { words, clock: Clock::Gpu, device, times })
}

fn simulated(
    subject: &dyn Subject,
    check: Verification,
    probed: &Planned,
    seed: u64,
    out: &mut dyn Write,
) -> Result<Recorded, Failure> {
    let options = Options { schedule: Schedule::Timed, seed, ..Options::default() };
    let kernel = SimulatedKernel::new(probed)?;
    let Done { ran, tolerance, .. } = simulate::once(&kernel, subject, check, &options)?;
    ran.verify(probed, tolerance)?;
    let (words, order) = (kernel.records(), order(&options));
    line(out, "device", format_args!("the simulator: the PTX with probes on the CPU, schedule {order}"))?;
    let (name, driver) = ("the simulator".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let device = DeviceId { kind: DeviceKind::Sim, name, driver };
    Ok(Recorded { words, clock: Clock::Simulator, device, times: None })
}

/// Verifies the results of a kernel and of the same with probes, and times both in turn.
fn timed(
    device: &Device,
    subject: Rc<dyn Subject>,
    check: Verification,
    (plain, probed): Both,
    options: &InterleaveOptions,
) -> Result<OnGpu, Failure> {
    let progress = Progress::new();
    let mut operands = subject.on(device, check.rows, &progress.steps());
    let mut cases = [operands.case(plain)?, operands.case(probed)?];
    progress.step("multiplying and comparing");
    for case in &mut cases {
        let tolerance = case.tolerance(check.tolerance);
        case.run()?.verify(case.planned.ptx.entry(), tolerance)?;
    }
    progress.done();
    let mut candidates: Vec<_> = cases.iter_mut().map(Case::candidate).collect();
    let timings = interleave(&mut candidates, options, device)?;
    drop(candidates);
    let (attributes, words) =
        cases[1].recorded()?.map_or((None, None), |(attributes, words)| (Some(attributes), words));
    Ok(OnGpu { timings, attributes, words })
}

/// Of the times of a kernel and of the same with probes.
fn times(timings: &[Timing]) -> Option<TracedTimes> {
    let [plain, probed] = timings else { return None };
    Some(TracedTimes { plain_us: plain.summary().median, probed_us: probed.summary().median })
}

fn warn_of_spills(attributes: &FunctionAttributes) {
    if attributes.local_bytes > 0 {
        say(format_args!(
            "warning: probes take a register that this kernel does not have: the driver's compiler keeps {} B a thread in \
             memory, which the kernel without probes does not, and the timeline has that in it",
            attributes.local_bytes
        ));
    }
}
