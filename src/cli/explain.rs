//! `bsr explain`: which kernel a tuner takes for a problem, and why.

use std::io::Write;
use std::path::PathBuf;

use bsr::roofs::Sheet;
use bsr_trial::request::Defaults;
use bsr_tuner::TuningProblem;
use bsr_tuner::pick::{Gpu, Table, Tuner};
use bsr_tuner::space::read_facts;

use super::attention_blocks;
use super::database;
use super::device::DeviceChoice;
use super::exit::{Exit, Failure};
use super::problem::ProblemArgs;

/// Show which kernel is chosen for a problem and why: tuned for it, tuned for a similar one, or predicted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr explain \"bm = 512, bk = 112\" --m 8192 --n 8192 --k 8288 --pattern topk:16
  bsr explain \"op = attention, bm = 64, bn = 128, bk = 64\" --m 8192 --heads 16 --pattern causal
  bsr explain \"bm = 64, bk = 64, dtype = bf16\" --matrix weights.npz --n 4096 --db tuned.db

The tuned results that come with the project are those of an NVIDIA H200; --db adds what `bsr sweep` measured. \
Without a GPU the answer is for an NVIDIA H200, or for the card that --gpu names.")]
pub(super) struct Args {
    /// The facts of the product: bm, bk (of an attention whose mask is a rule they are chosen where they are left out) and, if they differ from the defaults, op, transpose, types and layouts.
    #[arg(value_name = "KERNEL")]
    kernel: String,
    /// Also use the results of this database.
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// Choose for this card, by its name or a part of it: H200, "H100 PCIe". [default: the GPU of this machine, otherwise
    /// NVIDIA H200]
    #[arg(long, value_name = "NAME", value_parser = Sheet::find)]
    gpu: Option<&'static Sheet>,
    #[command(flatten)]
    problem: ProblemArgs,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    let facts = read_facts(&attention_blocks::filled(&args.kernel, &args.problem, Defaults::Gpu, gpu(args))?)?;
    let spec = facts.spec(64);
    let subject = args.problem.subject(Defaults::Gpu, &spec)?;
    let problem = TuningProblem::new(subject.workload(&spec), &subject.about(&spec)?.structure);
    let mut tuner = Tuner::new(gpu(args));
    if let Some(path) = &args.db {
        tuner = tuner.with(Table::best_of(&database::read(path)?.1));
    }
    let choice = tuner.pick(&problem, None).map_err(Failure::bad_input)?;
    writeln!(out, "gpu       {}", tuner.gpu().name)?;
    writeln!(out, "{choice}")?;
    Ok(Exit::Done)
}

/// The GPU that is named, that is here, or that the shipped table is of.
fn gpu(args: &Args) -> Gpu {
    let here = || DeviceChoice::Gpu(0).gpu("sm_70").map_or_else(|_| Gpu::default(), |device| device.info().into());
    args.gpu.map_or_else(here, Gpu::from)
}
