//! One launch from beginning to end.

use std::ops::Range;

use rayon::prelude::*;

use crate::Coverage;
use crate::check::{Finding, Side};
use crate::clusters::{cluster_race, read_only_path, shared_bytes, touches};
use crate::machine::Machine;
use crate::machine::global::{BufferId, GlobalMemory};
use crate::machine::launch::{Launch, LaunchError, Options, product};
use crate::machine::overlay::{Changes, Overlay, Pages, Wrote};
use crate::machine::released::Exchange;
use crate::machine::watched::Watched;
use crate::program::{Module, Program};
use crate::schedule::ClusterSchedule;
use crate::trace::{self, Cost, Recorder};

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Everything that is wrong; empty for a run without defects.
    pub findings: Vec<Finding>,
    /// What it cost.
    pub cost: Cost,
    /// What was executed.
    pub coverage: Coverage,
    /// A Chrome / Perfetto trace (JSON), if it was requested; a microsecond of it is a cycle of the cost model.
    pub trace: Option<String>,
    /// Who has written which bytes of global memory, if it was requested: cluster by cluster, in order.
    pub writers: Vec<Writer>,
}

/// Bytes of global memory that one instruction of a warp has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The buffer.
    pub buffer: BufferId,
    /// Which of its bytes.
    pub bytes: Range<usize>,
    /// Number of the cluster in the grid.
    pub cluster: u32,
    /// The instruction, the block and the warp.
    pub side: Side,
}

impl Report {
    /// Nothing wrong was seen.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

struct Outcome {
    findings: Vec<Finding>,
    cost: Cost,
    executed: Vec<bool>,
    changes: Changes,
    events: Vec<trace::Event>,
}

fn one(p: &Program, launch: &Launch, options: &Options, params: &[u8], memory: &GlobalMemory, cluster: u32) -> Outcome {
    let overlay = Overlay::new(memory, options.races, options.writers);
    let mut m = Machine::new(p, launch, options, params, overlay, cluster);
    m.run();
    outcome(m)
}

fn outcome(mut m: Machine<'_>) -> Outcome {
    m.cost.steps = m.steps;
    m.cost.cycles = m.warps.iter().map(|w| w.now).max().unwrap_or(0);
    if let Some(r) = &mut m.recorder {
        m.warps.iter().for_each(|w| r.life(w.cta as u32, w.index, w.now));
    }
    Outcome {
        findings: m.findings,
        cost: m.cost,
        executed: m.executed,
        changes: m.global.finish(),
        events: m.recorder.map(Recorder::finish).unwrap_or_default(),
    }
}

/// Executes one launch of kernel `entry` and changes `memory` as the kernel does.
///
/// Clusters run in parallel; each is deterministic in `options.seed`, and so is the whole.
///
/// # Errors
/// A launch that the driver would refuse: unknown kernel, parameters that do not match, shapes out of bounds, bad
/// tensor maps. Defects of the kernel are not errors but [`Report::findings`].
pub fn simulate(
    module: &Module,
    entry: &str,
    launch: &Launch,
    memory: &mut GlobalMemory,
    options: &Options,
) -> Result<Report, LaunchError> {
    let p = module.kernel(entry).ok_or_else(|| {
        let known: Vec<&str> = module.entries().collect();
        LaunchError(format!("the module has no kernel `{entry}`; it has {}", known.join(", ")))
    })?;
    launch.check(p, memory)?;
    memory.enter(&p.globals);
    let clusters = (product(launch.grid) / product(launch.cluster)) as u32;
    let params = launch.parameter_bytes(p, memory);
    let mut watched = false;
    let outcomes: Vec<Outcome> = if p.uses_global_atomics {
        let run = |watched| together((p, launch, options), &params, memory, clusters, watched);
        let mut all = run(Watched::default());
        // Accesses that a sweep over the bytes takes for races may be ordered: the same run once more tells.
        let shared = shared_bytes(&changes(&all));
        watched = !shared.is_empty();
        if watched {
            all = run(Watched::new(shared));
        }
        all.iter().for_each(|o| memory.apply(&o.changes));
        all
    } else {
        let shared = &*memory;
        let all =
            (0..clusters).into_par_iter().map(|c| one(p, launch, options, &params, shared, c)).collect::<Vec<_>>();
        for o in &all {
            memory.apply(&o.changes);
        }
        all
    };
    memory.leave();
    let warps = launch.threads().div_ceil(32);
    let mut report = gather(p, outcomes, options, watched);
    report.writers.iter_mut().for_each(|writer| {
        (writer.side.cta, writer.side.warp) = (writer.side.warp / warps, writer.side.warp % warps);
    });
    Ok(report)
}

/// Runs clusters that communicate through global memory in turns, on one memory.
fn together(
    (p, launch, options): (&Program, &Launch, &Options),
    params: &[u8],
    memory: &GlobalMemory,
    clusters: u32,
    watched: Watched,
) -> Vec<Outcome> {
    let overlay = || Overlay::new(memory, options.races, options.writers);
    let new = |c| Machine::new(p, launch, options, params, overlay(), c);
    let mut machines: Vec<Machine<'_>> = (0..clusters).map(new).collect();
    let (mut pages, mut exchange) = (Pages::default(), Exchange::watching(watched));
    let mut schedule = ClusterSchedule::new(options.schedule, options.seed, machines.len());
    while let Some((at, steps)) = schedule.next(pages.changes) {
        let m = &mut machines[at];
        m.global.swap_pages(&mut pages);
        std::mem::swap(&mut m.exchange, &mut exchange);
        let progress = m.run_for(steps);
        m.global.swap_pages(&mut pages);
        std::mem::swap(&mut m.exchange, &mut exchange);
        schedule.took(at, progress, pages.changes);
    }
    // Clusters that are left wait for each other.
    for at in schedule.running() {
        let _ = machines[at].deadlock();
    }
    if let Some(last) = machines.last_mut() {
        last.global.swap_pages(&mut pages);
    }
    machines.into_iter().map(outcome).collect()
}

/// `ordered`: races between clusters were found where they happened.
fn gather(p: &Program, mut outcomes: Vec<Outcome>, options: &Options, ordered: bool) -> Report {
    let mut report = Report::default();
    let mut events = Vec::new();
    for (c, o) in outcomes.iter_mut().enumerate() {
        for f in o.findings.drain(..) {
            let lines = |f: &Finding| f.sides.iter().map(|s| s.line).collect::<Vec<_>>();
            match report.findings.iter_mut().find(|g| g.kind == f.kind && lines(g) == lines(&f)) {
                Some(g) => g.times += f.times,
                None => report.findings.push(f),
            }
        }
        report.coverage.merge(&Coverage { executed: std::mem::take(&mut o.executed) });
        report.cost.steps += o.cost.steps;
        report.cost.flops += o.cost.flops;
        report.cost.tensor_cycles += o.cost.tensor_cycles;
        report.cost.bytes_copied += o.cost.bytes_copied;
        report.cost.cycles = report.cost.cycles.max(o.cost.cycles);
        events.append(&mut o.events);
        let wrote = std::mem::take(&mut o.changes.writers);
        report.writers.extend(wrote.iter().map(|wrote| writer(p, wrote, c as u32)));
    }
    if let Some(f) = read_only_path(p, &changes(&outcomes), options) {
        report.findings.push(f);
    }
    if !ordered && let Some(f) = cluster_race(p, touches(&changes(&outcomes)), options) {
        report.findings.push(f);
    }
    if options.trace {
        report.trace = Some(trace::chrome(events));
    }
    report
}

/// A write in full, its warp counted over the cluster.
fn writer(p: &Program, wrote: &Wrote, cluster: u32) -> Writer {
    let (line, text, section) = p.describe(wrote.pc);
    let (cta, warp, does) = (0, u32::from(wrote.warp), "writes".to_owned());
    let side = Side { line, text, section, cta, warp, lanes: u32::MAX, does };
    Writer { buffer: BufferId(wrote.buffer), bytes: wrote.bytes.0..wrote.bytes.1, cluster, side }
}

/// What every cluster has touched.
fn changes(outcomes: &[Outcome]) -> Vec<&Changes> {
    outcomes.iter().map(|outcome| &outcome.changes).collect()
}
