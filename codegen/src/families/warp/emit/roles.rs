//! What templates name of kernels some of whose warps only load.

use serde::Serialize;

use super::super::plan::{Crew, WarpPlan};
use super::boxes::Boxes;
use super::context::Context;
use crate::Load;
use crate::hopper::BARRIER;

/// Everything that templates name of such a kernel.
#[derive(Serialize)]
pub(super) struct Roles<'p> {
    #[serde(flatten)]
    warp: Context<'p>,
    crew: Crew,
    barriers: Barriers,
    /// The instructions of mbarriers: every architecture has its own.
    wait: &'static str,
    arrive: &'static str,
    boxes: Option<Boxes>,
}

/// The mbarriers of the ring: a full one and an empty one for each stage.
#[derive(Serialize)]
struct Barriers {
    /// In shared memory.
    offset: u32,
    /// Bytes of all full ones, behind which the empty ones are.
    empty: u32,
    /// Bytes from the first full one to each of them.
    all: Vec<u32>,
    full_arrivals: u32,
    empty_arrivals: u32,
}

impl<'p> Roles<'p> {
    /// Where TMA loads, `boxes` are what it does.
    pub(super) fn new(plan: &'p WarpPlan, warp: Context<'p>, boxes: impl FnOnce(&WarpPlan) -> Boxes) -> Self {
        let (crew, stages) = (plan.crew(), plan.memory.stages);
        // `try_wait` suspends the thread for a while; Ampere has `test_wait` alone.
        let (wait, arrive) = match plan.arch.compute_capability {
            (9.., _) => ("mbarrier.try_wait.parity.shared::cta.b64", "mbarrier.arrive.shared::cta.b64 _,"),
            _ => ("mbarrier.test_wait.parity.shared.b64", "mbarrier.arrive.shared.b64 %rd_phase,"),
        };
        let is_boxed = plan.spec.load == Load::Tma;
        Self {
            warp,
            crew,
            barriers: Barriers {
                offset: plan.memory.barrier_offset(),
                empty: stages * BARRIER,
                all: (0..stages).map(|stage| stage * BARRIER).collect(),
                full_arrivals: if is_boxed { 1 } else { crew.producers * 32 },
                empty_arrivals: crew.consumers,
            },
            wait,
            arrive,
            boxes: is_boxed.then(|| boxes(plan)),
        }
    }
}
