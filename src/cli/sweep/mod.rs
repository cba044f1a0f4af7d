//! `bsr sweep`: measures the points of a space for one problem, and remembers all of them.

mod backends;
mod points;
mod summary;
mod watch;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bsr_trial::request::Defaults;
use bsr_tuner::backend::Limits;
use bsr_tuner::pick::Gpu;
use bsr_tuner::report::by_block_size;
use bsr_tuner::search::Strategy;
use bsr_tuner::store::{Rejection, Run};
use bsr_tuner::sweep::{Ended, Job, Options, Outcome, Shard, Sweep, SweepError};
use bsr_tuner::{Facts, Store, Verdict, Workload};
use clap::ValueEnum;

use super::backend::keep_in;
use super::exit::{Exit, Failure};
use super::output::{Outputs, Replace};
use super::problem::{ProblemArgs, in_a_shell};
use super::weights::block;
use super::{attention_blocks, block_sizes, interrupt, invocation, line};
use backends::{BackendKind, Backends, Devices};
use points::Points;
use watch::Watch;

/// Where records are kept unless another file is named.
pub(super) const DATABASE: &str = "bsr.db";

/// How long a kernel may take where no other time is given.
const WATCHDOG: Duration = Duration::from_secs(30);

/// Kernels that are timed again together, with --halving.
const FINALISTS: usize = 12;

/// Measure the kernels of a space for a problem or a list of problems, and store every result.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bsr sweep --kernel \"bm = 512, bk = 112\" --m 8192 --n 8192 --k 8288 --pattern topk:16
  bsr sweep --space \"bn = [64, 128], stages = 2..=4\" --kernel \"bm = 64, bk = 32\" --device sim
  bsr sweep --space space.toml --kernel \"bm = 64, bk = 64\" --db h200.db --budget 5m --halving
  bsr sweep --blocks 32x32,64x64,128x128 --pattern random:0.125 --halving --limit 40
  bsr sweep --blocks 16x16,64x64 --matrix bcsstk13.mtx --n 4096
  bsr sweep --workloads public --limit 40 --db public.db
  bsr sweep --kernel \"op = attention, bm = 128, bn = 128, bk = 128, dtype = bf16\" --m 16384 --heads 16 --pattern causal
  bsr sweep --space hopper-f16 --kernel \"bm = 64, bk = 64\" --db part3.db --shard 3/8      # then: bsr merge all.db part*.db

Each kernel is checked against an f64 reference, then timed in turn with the dense library, each launch from a cold \
L2 cache. A kernel that hangs, faults or is wrong is recorded like any other, and the sweep continues. Ctrl-C ends \
the sweep after the current call with exit code 130; the same command resumes it, also after a crash. --device sim \
needs no GPU: the simulator checks every kernel on a small instance of the problem, and the cost model, which is \
fitted to measurements, predicts its time for the whole problem on an NVIDIA H200. The simulator's cycles (`bsr run \
--trace`) rank kernels poorly and are not part of a sweep. Predicted times are never mixed with measured ones.")]
pub(super) struct Args {
    /// The kernels: the name of a space (`bsr space` lists them), the path of a .toml file, a spec with lists, or auto: the
    /// space for the GPU and the types.
    #[arg(long, value_name = "NAME|FILE|LISTS", default_value = "auto")]
    space: String,
    /// The facts of the product that the space leaves open: `bm = 512, bk = 112`, and any other.
    #[arg(long, value_name = "FACTS")]
    kernel: Option<String>,
    /// Blocks of several sizes, ROWSxCOLUMNS: the kernels of each are measured, and the fastest size is named. --kernel then says
    /// what else is known of the product, if anything is.
    #[arg(long, value_parser = block, value_delimiter = ',', value_name = "RxC,..")]
    blocks: Vec<(usize, usize)>,
    /// Sweep a list of problems instead: public, held-out, blocks, attention, or a .toml file.
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["kernel", "blocks", "m", "n", "k", "pattern", "matrix"])]
    workloads: Option<PathBuf>,
    /// The database, created if it does not exist. Several sweeps can write to one file at the same time.
    #[arg(long, value_name = "FILE", default_value = DATABASE)]
    db: PathBuf,
    /// Where to measure: gpu, sim (the simulator checks, times are predicted), or auto: the GPUs, or sim if there are none.
    #[arg(long, default_value = "auto")]
    device: BackendKind,
    /// GPUs that share the points: all, or their numbers: 0,3.
    #[arg(long, default_value = "0", value_name = "LIST")]
    devices: Devices,
    /// Measure at most this many points, including those that are already known.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    limit: Option<usize>,
    /// End after this time: 90s, 5m, 2h.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    budget: Option<Duration>,
    /// The order of the points: the fastest first by the cost model, which is corrected by measurements; as written; or random,
    /// by --seed.
    #[arg(long, value_enum, default_value_t = Way::Guided)]
    strategy: Way,
    /// Time every kernel briefly, then the fastest few together until their difference is significant.
    #[arg(long)]
    halving: bool,
    /// Measure one shard of the points: 3/8 is the third of eight. `bsr merge` combines the databases.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// A kernel that takes longer counts as hanging. One that hung with a shorter limit is tried again.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    watchdog: Duration,
    /// Measure points with these verdicts again: hang, fault, wrong, refused, slow or timed.
    #[arg(long, value_name = "VERDICT,..", value_delimiter = ',', value_parser = verdict)]
    retry: Vec<Verdict>,
    /// The folder of the driver's cache of compiled kernels. [default: CUDA_CACHE_PATH, or ~/.nv]
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
    #[command(flatten)]
    problem: ProblemArgs,
}

impl Args {
    /// The kernels of a space for a list of problems, in order, on the first GPU: at most `limit` for each problem, and no longer
    /// than `budget`.
    pub(super) fn exhaustive(workloads: &str, space: &str, db: &Path, limit: usize, budget: Duration) -> Self {
        Self {
            space: space.to_owned(),
            kernel: None,
            blocks: Vec::new(),
            workloads: Some(workloads.into()),
            db: db.to_owned(),
            device: BackendKind::Gpu,
            devices: Devices::These(vec![0]),
            limit: Some(limit),
            budget: Some(budget),
            strategy: Way::Exhaustive,
            halving: false,
            shard: None,
            watchdog: WATCHDOG,
            retry: Vec::new(),
            cache: None,
            problem: ProblemArgs::default(),
        }
    }
}

/// In which order points are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    Guided,
    Exhaustive,
    Random,
}

impl Way {
    fn strategy(self, seed: u64) -> Strategy {
        match self {
            Self::Guided => Strategy::Guided,
            Self::Exhaustive => Strategy::Exhaustive,
            Self::Random => Strategy::Random { seed },
        }
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Failure> {
    if let Some(folder) = &args.cache {
        // SAFETY: the command has started no thread yet and has not asked for a device.
        unsafe { keep_in(folder) };
    }
    interrupt::take_over();
    let device = args.device.resolve();
    let (workloads, seed) = workloads(args)?;
    let gpu = match device {
        BackendKind::Gpu | BackendKind::FaultInjection => Some(args.devices.first()?),
        _ => None,
    };
    let card = gpu.as_ref().map_or_else(Gpu::default, |gpu| gpu.info().into());
    let Points { jobs, rejected, digest } = points::read(&workloads, &args.space, args.strategy.strategy(seed), &card)?;
    if jobs.iter().all(|job| job.points.is_empty()) {
        return Err(Failure::bad_input(
            "the space has no kernel for this product\n  help: `bsr space` with the same --kernel says why",
        ));
    }
    let Backends { mut backends, compiler } = device.backends(&args.devices, limits(args.watchdog))?;
    let inputs = args.problem.inputs().into_iter().chain(args.workloads.as_deref()).chain([Path::new(&args.space)]);
    Outputs::new([("--db", Some(&args.db))], inputs, &Replace::ALLOWED)?;
    let mut store = Store::open(&args.db)?;
    let command = command_line();
    let request = request(args, &jobs);
    let run = store.begin(&Run::now(command.clone(), args.space.clone(), digest, request))?;

    let stop = interrupt::stop_flag();
    let watch = Watch::new();
    let sweep = Sweep {
        compiler: compiler.as_ref(),
        options: options(args, backends.len()),
        run: Some(run),
        stop: &stop,
        events: &|event| watch.report(event),
    };
    let outcomes = sweep.run(jobs, &mut backends, &mut store);
    watch.done();
    match &outcomes {
        Ok(outcomes) => {
            let how = outcomes.last().map_or("complete", |last| last.ended.as_str());
            store.conclude(run, how, &rejections(rejected, outcomes))?;
        }
        Err(error) => {
            store.end(run, &format!("error: {}", error.to_string().lines().next().unwrap_or_default()), &[])?
        }
    }
    let outcomes = outcomes?;
    for outcome in &outcomes {
        summary::print(outcome, out)?;
    }
    let records: Vec<_> =
        outcomes.iter().flat_map(|outcome| outcome.ranking.iter().chain(&outcome.baselines)).cloned().collect();
    by_block_size(&records).iter().try_for_each(|sizes| block_sizes::print(sizes, out))?;
    line(out, "database", format_args!("{}, {} records", args.db.display(), store.len()?))?;
    if outcomes.last().is_some_and(|last| matches!(last.ended, Ended::Stopped | Ended::Budget)) {
        line(out, "go on", format_args!("nothing is lost; the same command goes on: {command}"))?;
    }
    let stopped = outcomes.last().is_some_and(|last| last.ended == Ended::Stopped);
    Ok(if stopped { Exit::Interrupted } else { Exit::Done })
}

/// What is multiplied, and the seed of all that is drawn at random.
fn workloads(args: &Args) -> Result<(Vec<Workload>, u64), Failure> {
    if let Some(list) = &args.workloads {
        return Ok((points::list(list)?, 0));
    }
    if let Some(path) = args.problem.inputs().filter(|path| path.to_str().is_none()) {
        // What is asked of a backend, and kept in a database, is text.
        let fact = format!("the name of {} is not UTF-8, which a database cannot hold", path.display());
        return Err(Failure::bad_input(format!("{fact}\n  help: rename the file, or link to it")));
    }
    let workload = |facts: Facts| {
        let spec = facts.spec(64);
        Ok(args.problem.subject(Defaults::Gpu, &spec)?.workload(&spec))
    };
    let workloads = facts(args)?.into_iter().map(workload).collect::<Result<_, Failure>>()?;
    Ok((workloads, args.problem.seed()))
}

/// What is multiplied: one product, or the same in blocks of each size.
fn facts(args: &Args) -> Result<Vec<Facts>, Failure> {
    let kernel = args.kernel.as_deref();
    let of_blocks = |&(bm, bk): &(usize, usize)| {
        let more = kernel.map_or(String::new(), |kernel| format!(", {kernel}"));
        points::facts(&args.space, Some(&format!("bm = {bm}, bk = {bk}{more}")))
    };
    match args.blocks.as_slice() {
        [] => {
            let filled = |kernel| attention_blocks::filled(kernel, &args.problem, Defaults::Gpu, Gpu::default());
            Ok(vec![points::facts(&args.space, kernel.map(filled).transpose()?.as_deref())?])
        }
        blocks => blocks.iter().map(of_blocks).collect(),
    }
}

fn options(args: &Args, backends: usize) -> Options {
    Options {
        ahead: backends * Options::AHEAD,
        limit: args.limit,
        watchdog: Some(args.watchdog),
        retry: args.retry.clone(),
        budget: args.budget,
        shard: args.shard,
        halving: args.halving.then_some(FINALISTS),
        ..Options::default()
    }
}

fn limits(watchdog: Duration) -> Limits {
    Limits { check: watchdog, time: watchdog, ..Limits::default() }
}

/// The request in words, for the record.
fn request(args: &Args, jobs: &[Job]) -> String {
    let problems = jobs.iter().map(|job| {
        let bsr_tuner::Workload { facts, m, n, k, source, seed } = &job.workload;
        format!("{facts}: m = {m}, n = {n}, k = {k}, {source}, seed {seed}, {} points", job.points.len())
    });
    let Args { strategy, halving, limit, budget, shard, .. } = args;
    let shard = shard.map(|shard| shard.to_string());
    let how = format!("{strategy:?}, halving {halving}, limit {limit:?}, budget {budget:?}, shard {shard:?}");
    problems.chain([how]).collect::<Vec<_>>().join("\n")
}

/// Points that cannot be planned, and those that turned out to be no kernels.
fn rejections(planned: Vec<Rejection>, outcomes: &[Outcome]) -> Vec<Rejection> {
    let found = outcomes.iter().flat_map(|outcome| {
        let problem = outcome.problem.key();
        let rejection = move |(reason, points): (&String, &usize)| Rejection {
            problem: problem.clone(),
            reason: reason.clone(),
            points: *points,
        };
        let unseen = Rejection::unseen(outcome.problem.key(), outcome.ended.as_str(), outcome.unseen);
        outcome.rejected.iter().map(rejection).chain((outcome.unseen > 0).then_some(unseen))
    });
    planned.into_iter().chain(found).collect()
}

/// The command as a shell takes it.
fn command_line() -> String {
    let words = invocation::args().map(|word| in_a_shell(&word.to_string_lossy()));
    ["bsr".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

fn verdict(text: &str) -> Result<Verdict, String> {
    let words = Verdict::ALL.map(Verdict::as_str);
    let found = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == text);
    found.ok_or_else(|| format!("write one of {}, or several with commas", words.join(", ")))
}

/// A time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a number and a unit: 90s, 5m, 2h".to_owned()),
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number * seconds < 1e9 => Ok(Duration::from_secs_f64(number * seconds)),
        _ => Err("write a number above 0 and a unit: 90s, 5m, 2h".to_owned()),
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Store(error) => error.into(),
            error => Self::new(Exit::Wrong, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["5", "m", "0s", "-1s", "5 days", "1e30h", ""] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
