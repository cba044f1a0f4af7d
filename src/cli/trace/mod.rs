//! `bsr trace SPEC`: what each role of a kernel's CTAs does and when, recorded by the kernel itself.

mod compare;
mod ctas;
mod product;

use std::io::Write;
use std::path::PathBuf;

use bsr::Op;
use bsr::bench::Timing;
use bsr::gpu::FunctionAttributes;
use bsr::probes::{MOST_RECORDS, Probes};
use bsr::timeline::{Clock, Summary, Timeline};

use super::attention;
use super::device::DeviceChoice;
use super::exit::{Exit, Failure};
use super::output::{self, Outputs, Replace};
use super::problem::ProblemArgs;
use super::spec::{self, Planned};
use super::verdict::CheckArgs;
use super::{line, say};
use ctas::Ctas;

/// Draw what each role of a kernel's CTAs does and when, on a GPU or on the simulator.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr trace \"bm = 512, bn = 128, bk = 112\" -o pipeline.json
  bsr trace \"bm = 64, bn = 256, bk = 64\" --m 8192 --n 8192 --k 8192 --ctas 0..8 -o pipeline.json
  bsr trace \"bm = 512, bn = 128, bk = 112\" --device sim -o simulated.json
  bsr trace --compare pipeline.json simulated.json

The kernel is emitted once more with probes: one thread of each role (a producer's warp, a consumer's warpgroup) writes a \
record at the end of every wait, load, WGMMA group, release, epilogue step, tile switch and merge of partial sums. The result is \
compared with the f64 reference all the same, and on a GPU the kernel is timed with and without probes. The file is for \
ui.perfetto.dev or chrome://tracing. Times of the simulator are cycles of its cost model, which say nothing of a GPU: the \
viewer shows a cycle as a microsecond.")]
pub(super) struct Args {
    /// The kernel: `bm = .., bn = .., bk = ..`, or the path of a .toml file.
    #[arg(required_unless_present = "compare")]
    spec: Option<String>,
    /// What multiplies: gpu, gpu:N, sim (the simulator), or auto: the first GPU if there is one, else the simulator.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// Which CTAs of the grid record: 5, 0..4 (four of them) or 0..=3.
    #[arg(long, default_value = "0..4")]
    ctas: Ctas,
    /// Records that each role has room for; the rest is counted.
    #[arg(long, default_value_t = RECORDS, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RECORDS)))]
    records: u32,
    /// Write the trace to this file; `-` is standard output, and everything else then goes to standard error.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the PTX with the probes to this file.
    #[arg(long, value_name = "FILE")]
    ptx: Option<PathBuf>,
    /// Say where two traces differ: what each role's time went to in both.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["spec", "output", "ptx"])]
    compare: Option<Vec<PathBuf>>,
    #[command(flatten)]
    replace: Replace,
    #[command(flatten)]
    problem: ProblemArgs,
    #[command(flatten)]
    check: CheckArgs,
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
            ptx: None,
            compare: None,
            replace: Replace::ALLOWED,
            problem: problem.clone(),
            check: CheckArgs::default(),
        }
    }
}

/// Records that each role has room for.
const RECORDS: u32 = 16_000;

/// What a traced launch left.
pub(super) struct Recorded {
    /// The words of the rings.
    pub(super) words: Option<Vec<u32>>,
    pub(super) clock: Clock,
    /// What the probes cost, on a GPU.
    pub(super) cost: Option<Cost>,
}

/// A kernel's times without and with probes, and what the driver's compiler made of the latter.
pub(super) struct Cost {
    plain: f64,
    probed: f64,
    spilled: usize,
}

impl Cost {
    /// Of the times of the two, in this order.
    pub(super) fn new(timings: &[Timing], attributes: &FunctionAttributes) -> Option<Self> {
        let [plain, probed] = timings else { return None };
        let spilled = attributes.local_bytes as usize;
        Some(Self { plain: plain.summary().median, probed: probed.summary().median, spilled })
    }

    fn words(&self) -> String {
        let Self { plain, probed, .. } = self;
        let more = 100.0 * (probed / plain - 1.0);
        format!("{probed:.1} us with probes, {plain:.1} us without, medians from a cold L2 cache: {more:+.1} %")
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some([a, b]) = args.compare.as_deref() {
        return compare::run(a, b, out);
    }
    let spec = args.spec.as_deref().unwrap_or_default();
    let files = [("-o", args.output.as_ref()), ("--ptx", args.ptx.as_ref())];
    let outputs = Outputs::new(files, spec::file(spec).into_iter().chain(args.problem.inputs()), &args.replace)?;
    let out = &mut *outputs.answers(out);
    let planned = spec::plan(spec)?;
    let Ctas { first, count } = args.ctas;
    let probed = planned.probed(Probes { first, ctas: count, records: args.records })?;
    line(out, "spec", planned.spec())?;
    if let Some(path) = &args.ptx {
        output::write_text(path, probed.ptx.text())?;
        line(out, "PTX", format_args!("{} B written to {}", probed.ptx.text().len(), path.display()))?;
    }
    let opened = args.device.open(planned.plan.arch().target)?;
    let plan = probed.plan.clone();
    let recorded = match planned.spec().op {
        Op::Attention => {
            let asked = attention::Trace { planned: &planned, probed: &probed, problem: &args.problem };
            attention::trace(&asked, opened, out)?
        }
        _ => product::trace((planned, probed), (&args.problem, &args.check), opened, out)?,
    };
    let Some(words) = &recorded.words else {
        return Err(Failure::new(Exit::BadInput, "nothing is launched, so nothing is recorded: the result is empty"));
    };
    let timeline = Timeline::new(&plan, words, recorded.clock)?;
    if let Some(cost) = &recorded.cost {
        line(out, "time", cost.words())?;
        if cost.spilled > 0 {
            say(format_args!(
                "warning: probes take a register that this kernel does not have: the driver's compiler keeps {} B a thread in \
                 memory, which the kernel without probes does not, and the timeline has that in it",
                cost.spilled
            ));
        }
    }
    tell(&timeline, args, out)
}

/// Writes the trace, and what the time went to.
fn tell(timeline: &Timeline, args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let trace = timeline.perfetto();
    if let Some(path) = &args.output {
        let text = trace.to_string();
        output::write_text(path, &text)?;
        let unit = if timeline.clock == Clock::Simulator { "; each cycle is shown as 1 us" } else { "" };
        let what = format!("{} B written to {}, for ui.perfetto.dev", text.len(), path.display());
        line(out, "trace", format_args!("{what}{unit}"))?;
    }
    let numbers: Vec<String> = timeline.ctas.iter().map(|cta| cta.number.to_string()).collect();
    line(out, "CTAs", numbers.join(", "))?;
    writeln!(out, "\n{}", Summary::of_trace(&trace)?)?;
    Ok(Exit::Done)
}

/// What is said before a run of a probed kernel on the simulator.
pub(super) fn on_simulator(why: Option<&Failure>) {
    if let Some(none) = why {
        say(format_args!("no CUDA device ({}): tracing on the simulator", none.first_line()));
    }
}

/// A kernel and the same with probes.
pub(super) type Both = (Planned, Planned);
