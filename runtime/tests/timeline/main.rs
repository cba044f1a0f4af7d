//! What kernels record of themselves, on the simulator: it is held against their work lists and against the rules of viewers.
#![allow(clippy::unwrap_used)]

mod attention;
#[path = "../device/mod.rs"]
mod device;
mod gpu;
mod gradient;
mod products;
mod rules;

use bsr_codegen::probes::{Kind, Probes};
use bsr_codegen::{KernelSpec, Plan};
use bsr_runtime::simulated::{Options, Schedule};
use bsr_runtime::timeline::{Clock, Timeline, Track};

/// All CTAs of a small grid, and more records than they write.
const PROBES: Probes = Probes { first: 0, ctas: 16, records: 4000 };

fn probed(spec: &str, probes: Probes) -> Plan {
    Plan::new(&spec.parse::<KernelSpec>().unwrap()).unwrap().probed(probes).unwrap()
}

fn timed() -> Options {
    Options { schedule: Schedule::Timed, ..Options::default() }
}

/// What the simulator's records say.
fn timeline(plan: &Plan, words: &[u32]) -> Timeline {
    Timeline::new(plan, words, Clock::Simulator).unwrap()
}

/// How many slices of a kind a role has.
fn count(track: &Track, kind: Kind) -> usize {
    track.slices.iter().filter(|slice| slice.kind == kind).count()
}
