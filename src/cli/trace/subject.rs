//! What is traced: a product or an attention, on the simulator or on a GPU.

use std::io::Write;
use std::time::Duration;

use bsr::bench::{InterleaveOptions, Timing};
use bsr::gpu::{Device, FunctionAttributes};
use bsr::simulated::{Options, Schedule};
use bsr::timeline::{Clock, Timeline};
use bsr::{KernelSpec, Op};
use bsr_tuner::{DeviceId, DeviceKind, Facts, TraceOf, TracedTimes, Workload};
use serde_json::Value;

use super::super::attention;
use super::super::device::{self, DeviceChoice, Opened};
use super::super::exit::Failure;
use super::super::problem::{Defaults, DrawnProblem};
use super::super::spec::Planned;
use super::super::work_args::WorkArgs;
use super::super::{line, say, simulate};
use super::product;

/// A problem that kernels are traced on.
pub(in super::super) trait Subject {
    /// The problem of a kernel in words.
    ///
    /// # Errors
    /// Bad input: a problem that cannot be had in the kernel's blocks.
    fn about(&self, spec: &KernelSpec) -> Result<About, Failure>;

    /// The problem, so that it can be made again.
    fn workload(&self, spec: &KernelSpec) -> Workload;

    /// Runs a probed kernel on the simulator and judges its result: what it recorded.
    ///
    /// # Errors
    /// Wrong: a wrong result or a finding.
    fn simulate(&self, probed: &Planned, options: &Options) -> Result<Option<Vec<u32>>, Failure>;

    /// Judges the results of a kernel and of the same with probes, and times both in turn.
    ///
    /// # Errors
    /// Wrong: a wrong result. Those of the device.
    fn time(&self, device: &Device, both: Both, options: &InterleaveOptions) -> Result<OnGpu, Failure>;
}

/// A kernel and the same with probes.
pub(in super::super) type Both = (Planned, Planned);

/// A problem in words.
pub(in super::super) struct About {
    pub(in super::super) problem: String,
    /// What is sparse, and how.
    pub(in super::super) sparse: (&'static str, String),
    /// Operations on stored blocks.
    pub(in super::super) flops: u64,
}

/// What a GPU left of a kernel and the same with probes.
pub(in super::super) struct OnGpu {
    /// Of both, in this order.
    pub(in super::super) timings: Vec<Timing>,
    /// Of the kernel with probes, unless there was nothing to launch.
    pub(in super::super) attributes: Option<FunctionAttributes>,
    pub(in super::super) words: Option<Vec<u32>>,
}

/// The problem that the flags ask for; what they leave open is for a kernel and a device.
///
/// # Errors
/// Bad input: a problem that cannot be had.
pub(super) fn asked(args: &WorkArgs, planned: &Planned, opened: &Opened) -> Result<Box<dyn Subject>, Failure> {
    let is_simulated = matches!(opened, Opened::Simulator(_));
    if planned.spec().op == Op::Attention {
        let defaults = if is_simulated { attention::Defaults::SIMULATOR } else { attention::Defaults::GPU };
        let workload = attention::workload(&args.problem, &Facts::of(planned.spec()), defaults)?;
        return Ok(Box::new(attention::Traced(workload)));
    }
    let defaults = if is_simulated { Defaults::simulator(planned.block()) } else { Defaults::GPU };
    Ok(product::Traced::boxed(DrawnProblem::new(&args.problem, defaults)?, args.check))
}

/// The problem of another trace.
///
/// # Errors
/// As [`asked`].
pub(super) fn again(workload: &Workload, args: &WorkArgs) -> Result<Box<dyn Subject>, Failure> {
    match workload.facts.is_attention() {
        true => Ok(Box::new(attention::Traced(workload.clone()))),
        false => Ok(product::Traced::boxed(DrawnProblem::of_workload(workload)?, args.check)),
    }
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
    subject: &dyn Subject,
    both: Both,
    opened: &Opened,
    out: &mut dyn Write,
) -> Result<Value, Failure> {
    let (workload, plan) = (subject.workload(both.0.spec()), both.1.plan.clone());
    let about = subject.about(both.0.spec())?;
    line(out, "spec", both.0.spec())?;
    line(out, "problem", about.problem)?;
    line(out, about.sparse.0, about.sparse.1)?;
    out.flush()?;
    let Recorded { words, clock, device, times } = match opened {
        Opened::Gpu(device) => on(device, subject, both, out)?,
        Opened::Simulator(_) => {
            simulate::warning(about.flops).iter().for_each(say);
            simulated(subject, &both.1, workload.seed, out)?
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

fn on(device: &Device, subject: &dyn Subject, both: Both, out: &mut dyn Write) -> Result<Recorded, Failure> {
    let options = InterleaveOptions {
        min_repeats: 10,
        max_repeats: 50,
        time_limit: Duration::from_secs(2),
        ..InterleaveOptions::default()
    };
    let OnGpu { timings, attributes, words } = subject.time(device, both, &options)?;
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

fn simulated(subject: &dyn Subject, probed: &Planned, seed: u64, out: &mut dyn Write) -> Result<Recorded, Failure> {
    let options = Options { schedule: Schedule::Timed, seed, ..Options::default() };
    let words = subject.simulate(probed, &options)?;
    let order = simulate::order(&options);
    line(out, "device", format_args!("the simulator: the PTX with probes on the CPU, schedule {order}"))?;
    let (name, driver) = ("the simulator".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let device = DeviceId { kind: DeviceKind::Sim, name, driver };
    Ok(Recorded { words, clock: Clock::Simulator, device, times: None })
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
