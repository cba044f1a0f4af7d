//! `bsr profile SPEC PROBLEM`: what a GPU's counters say of a kernel, read by Nsight Compute (`ncu`).
//!
//! ```text
//! PTX --ptxas--> machine code with lines --nvdisasm--> Lines
//! profile --ncu--> profile --launch-only: the machine code is checked, then launched again under the counters
//!    |<-- a report, read back as pages of CSV: raw (Counters), source in SASS (Row)
//!    +--> Row and Lines: sections of our PTX; the mix of instructions, the roofs
//! ```

mod counters;
mod launch;
mod lines;
mod ncu;
mod sections;
mod show;
mod source;
mod table;

use std::io::Write;
use std::path::PathBuf;

use bsr_trial::request::Defaults;
use bsr_tuner::{TuningProblem, model};

use super::device::DeviceChoice;
use super::exit::{Exit, Failure};
use super::problem::ProblemArgs;
use super::progress::Progress;
use super::ptx::PtxArgs;
use super::{roofs, say, trace};
use counters::Counters;
use lines::Lined;
use ncu::{Ncu, NoReport};

/// Read a GPU's counters for one launch: instructions, tensor cores, bytes, stalls by section of the PTX.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr profile \"bm = 512, bn = 128, bk = 112\" --m 8192 --n 8192 --k 8288 --pattern topk:16
  bsr profile \"bm = 64, bn = 256, bk = 64\" --ncu /opt/nsight-compute/ncu

The result is compared with the reference; then the kernel is launched again under Nsight Compute, which needs \
permission to read the performance counters. Without it, the kernel's own probes are used, as in `bsr trace`. With \
ptxas and nvdisasm of the CUDA toolkit, samples are shown by section and line of the PTX, and the kernel is what \
ptxas assembles. The clocks are not locked. Stalls are samples of warps: a stalled warp costs nothing while another \
one has work.")]
pub(super) struct Args {
    /// The kernel: `bm = .., bn = .., bk = ..`, or the path of a .toml file.
    spec: String,
    /// The GPU: auto, gpu or gpu:N.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// The profiler. [default: ncu on the PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin]
    #[arg(long, value_name = "FILE")]
    ncu: Option<PathBuf>,
    /// Launch the kernel for the profiler, without output.
    #[arg(long, hide = true)]
    launch_only: bool,
    /// What ptxas made of the kernel.
    #[arg(long, hide = true, requires = "launch_only")]
    cubin: Option<PathBuf>,
    #[command(flatten)]
    ptx: PtxArgs,
    #[command(flatten)]
    problem: ProblemArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut planned = args.ptx.plan(&args.spec)?;
    if args.launch_only {
        let device = args.device.gpu_for([planned.plan.arch().target])?;
        planned.cubin = args.cubin.as_deref().map(launch::machine_code).transpose()?;
        let subject = args.problem.subject(Defaults::Gpu, planned.spec())?;
        return launch::launch(&device, planned, subject);
    }
    // What is wrong with the input is told before anything is started.
    let subject = args.problem.subject(Defaults::Gpu, planned.spec())?;
    let structure = subject.about(planned.spec())?.structure;
    let problem = TuningProblem::new(subject.workload(planned.spec()), &structure);
    let device = args.device.gpu_for([planned.plan.arch().target])?;
    let known = roofs::of(&device);
    let progress = Progress::new();
    progress.step("assembling");
    let lined = Lined::new(&planned, &device);
    // The profiler's process has the GPU to itself.
    drop(device);
    progress.step("profiling");
    let cubin = lined.as_ref().ok().map(|lined| &lined.cubin[..]);
    let report = match Ncu::find(args.ncu.as_deref()).and_then(|ncu| ncu.profile(planned.ptx.entry(), cubin)) {
        Ok(report) => report,
        Err(NoReport::Failed(failure)) => return Err(failure),
        Err(NoReport::NoCounters(sentence)) => {
            progress.done();
            if args.ptx.path().is_some() {
                let help = "help: `bsr trace SPEC --write-ptx FILE` writes a text with probes to edit, which `bsr trace` reads";
                return Err(Failure::new(Exit::NoDevice, format!("{sentence}\n  {help}")));
            }
            say(sentence);
            return trace::run(&trace::Args::of(&args.spec, args.device, &args.problem), out);
        }
    };
    progress.step("reading the report");
    let counters = Counters::read(&report.page(&["raw"])?).map_err(unreadable)?;
    let sass = source::read(&report.page(&["source", "--print-source", "sass"])?).map_err(unreadable)?;
    progress.done();
    let (card, _) = model::for_gpu(&known.gpu, None);
    let traffic = model::traffic(&planned.plan, &problem, None, &card);
    let seen = show::Seen { counters: &counters, sass: &sass, lined: &lined };
    show::show(&planned, &seen, &counters.place(traffic, &known), out)?;
    Ok(Exit::Done)
}

fn unreadable(why: String) -> Failure {
    Failure::wrong(format!("ncu's report cannot be read: {why}\n  help: another version of ncu"))
}
