//! One launch from beginning to end.

use rayon::prelude::*;

use crate::Coverage;
use crate::check::{Finding, FindingKind, Side};
use crate::machine::Machine;
use crate::machine::global::{Changes, GlobalMemory, Overlay, Touch, merge};
use crate::machine::launch::{Launch, LaunchError, Options, product};
use crate::program::{Module, Program};
use crate::trace;

/// What a run cost, in the units of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Warp instructions executed.
    pub steps: u64,
    /// Multiplications and additions: the tensor core's, and those of `fma`.
    pub flops: u64,
    /// Cycles the tensor cores were busy, over all blocks.
    pub tensor_cycles: u64,
    /// Bytes moved by asynchronous copies.
    pub bytes_copied: u64,
    /// Cycles of the longest-running cluster; approximate, see the trace's cost model.
    pub cycles: u64,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Everything that is wrong; empty for a run without defects.
    pub findings: Vec<Finding>,
    /// What it cost.
    pub cost: Cost,
    /// What was executed.
    pub coverage: Coverage,
    /// A Chrome / Perfetto trace (JSON), if it was asked for.
    pub trace: Option<String>,
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
    events: Vec<serde_json::Value>,
}

fn one(p: &Program, launch: &Launch, options: &Options, params: &[u8], memory: &GlobalMemory, cluster: u32) -> Outcome {
    let overlay = Overlay::new(memory, options.races);
    let mut m = Machine::new(p, launch, options, params, overlay, cluster);
    m.run();
    m.cost.steps = m.steps;
    m.cost.cycles = m.warps.iter().map(|w| w.now).max().unwrap_or(0);
    Outcome {
        findings: m.findings,
        cost: m.cost,
        executed: m.executed,
        changes: m.global.finish(),
        events: m.recorder.map(|r| r.finish(cluster)).unwrap_or_default(),
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
    let p = module.kernel(entry).ok_or_else(|| LaunchError::NoEntry {
        name: entry.to_owned(),
        known: module.entries().map(str::to_owned).collect(),
    })?;
    launch.check(p, memory)?;
    let clusters = (product(launch.grid) / product(launch.cluster)) as u32;
    let params = launch.parameter_bytes(p, memory);
    let outcomes: Vec<Outcome> = if p.uses_global_atomics {
        (0..clusters)
            .map(|c| {
                let o = one(p, launch, options, &params, memory, c);
                memory.apply(&o.changes);
                o
            })
            .collect()
    } else {
        let shared = &*memory;
        let all =
            (0..clusters).into_par_iter().map(|c| one(p, launch, options, &params, shared, c)).collect::<Vec<_>>();
        for o in &all {
            memory.apply(&o.changes);
        }
        all
    };
    Ok(gather(p, outcomes, options))
}

fn gather(p: &Program, mut outcomes: Vec<Outcome>, options: &Options) -> Report {
    let mut report = Report::default();
    let mut events = Vec::new();
    let mut touches: Vec<(Touch, u32, bool)> = Vec::new();
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
        for (list, writes) in [(&mut o.changes.reads, false), (&mut o.changes.writes, true)] {
            merge(list);
            touches.extend(list.iter().map(|t| (*t, c as u32, writes)));
        }
    }
    if let Some(f) = read_only_path(p, &outcomes, options) {
        report.findings.push(f);
    }
    if let Some(f) = cluster_race(p, touches, options) {
        report.findings.push(f);
    }
    if options.trace {
        report.trace = Some(trace::chrome(events));
    }
    report
}

/// Bytes that `ld.global.nc` reads and some thread writes: they are no constants. The first such pair is enough.
fn read_only_path(p: &Program, outcomes: &[Outcome], options: &Options) -> Option<Finding> {
    let all = |list: fn(&Changes) -> &Vec<Touch>| {
        let mut touches: Vec<(Touch, u32)> =
            outcomes.iter().zip(0..).flat_map(|(o, c)| list(&o.changes).iter().map(move |t| (*t, c))).collect();
        touches.sort_unstable_by_key(|(t, _)| t.start);
        touches
    };
    let reads = all(|changes| &changes.constant);
    if reads.is_empty() {
        return None;
    }
    let longest = reads.iter().map(|(t, _)| t.end - t.start).max().unwrap_or(0);
    let writes = all(|changes| &changes.writes).into_iter().chain(all(|changes| &changes.any_writes));
    let (write, read) = writes.into_iter().find_map(|(w, c)| {
        let from = reads.partition_point(|(t, _)| t.start < w.start.saturating_sub(longest));
        let mut near = reads[from..].iter().take_while(|(t, _)| t.start < w.end);
        near.find(|(t, _)| t.end > w.start).map(|r| ((w, c), *r))
    })?;
    let side = |(t, c): (Touch, u32), does: &str| {
        let (line, text, section) = p.describe(t.pc);
        Side { line, text, section, cta: 0, warp: 0, lanes: 0, does: format!("{does} them in cluster {c}") }
    };
    Some(Finding {
        kind: FindingKind::ReadOnlyPath,
        message: format!(
            "ld.global.nc reads global bytes from {:#x} that the kernel writes: it may return what was there before; use \
             ld.global",
            write.0.start.max(read.0.start)
        ),
        sides: vec![side(read, "reads"), side(write, "writes")],
        address: Some(write.0.start.max(read.0.start)),
        cluster: read.1,
        seed: options.seed,
        times: 1,
    })
}

/// Two clusters that touch the same bytes, one of them writing. The first such pair is enough.
fn cluster_race(p: &Program, mut touches: Vec<(Touch, u32, bool)>, options: &Options) -> Option<Finding> {
    touches.sort_unstable_by_key(|(t, ..)| t.start);
    // For the sweep: the furthest-reaching write, and the furthest-reaching touch, of the two best clusters.
    let mut writes: Vec<(Touch, u32)> = Vec::new();
    let mut any: Vec<(Touch, u32)> = Vec::new();
    for (t, c, is_write) in touches {
        let against = if is_write { &any } else { &writes };
        if let Some((other, oc)) = against.iter().find(|(o, oc)| *oc != c && o.end > t.start) {
            let side = |t: &Touch, c: u32| {
                let (line, text, section) = p.describe(t.pc);
                Side {
                    line,
                    text,
                    section,
                    cta: 0,
                    warp: 0,
                    lanes: 0,
                    does: format!("touches the bytes in cluster {c}"),
                }
            };
            return Some(Finding {
                kind: FindingKind::ClusterRace,
                message: format!(
                    "clusters {oc} and {c} both touch global bytes from {:#x}, and one of them writes",
                    t.start
                ),
                sides: vec![side(&t, c), side(other, *oc)],
                address: Some(t.start),
                cluster: c,
                seed: options.seed,
                times: 1,
            });
        }
        let keep = |list: &mut Vec<(Touch, u32)>| {
            match list.iter_mut().find(|(_, oc)| *oc == c) {
                Some(mine) if mine.0.end < t.end => mine.0 = t,
                Some(_) => {}
                None => list.push((t, c)),
            }
            list.retain(|(o, _)| o.end > t.start);
        };
        keep(&mut any);
        if is_write {
            keep(&mut writes);
        }
    }
    None
}
