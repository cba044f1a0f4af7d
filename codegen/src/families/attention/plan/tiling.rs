//! Step 2: the work tile: queries of the consumers, keys of a step, registers.

use crate::hopper::Roles;
use crate::plan::PlanError;
use crate::{Arch, KernelSpec};

/// Queries of a consumer.
pub(crate) const WG_ROWS: u32 = 64;
/// Keys of the largest step: S of more would leave no registers for O.
const WIDEST_STEP: u32 = 128;
/// K of one WGMMA.
const UNIT: u32 = 16;
/// Words that say which part of a tile a work tile is.
const PART_WORDS: u32 = 4;
/// Warpgroups that compute, the most first, with registers of the producer, registers of a consumer's thread beside O, S
/// and P (maxima, sums, addresses, descriptors), and columns of the widest head that they are taken for. At 64 columns a
/// consumer waits for its own instructions more than for the tensor cores, and a third one fills the time.
const CONSUMERS: [Consumers; 2] = [
    Consumers { number: 3, producer: 32, overhead: 32, widest: 64 },
    Consumers { number: 2, producer: 40, overhead: 36, widest: 256 },
];

#[derive(Clone, Copy, Debug)]
struct Consumers {
    number: u32,
    producer: u32,
    overhead: u32,
    widest: u32,
}

/// The tile of one CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    pub(crate) roles: Roles,
    /// Queries of a tile.
    pub(crate) rows: u32,
    /// Keys of a step.
    pub(crate) step: u32,
    /// Blocks that a step has keys of: one or two.
    pub(crate) blocks: u32,
    /// Columns of a head.
    pub(crate) columns: u32,
    /// All consumers compute the same blocks.
    pub(crate) uniform: bool,
    /// Words of a work tile: six, and one for each consumer, in vectors of four; and a vector more where it may be a part.
    pub(crate) words: u32,
    /// Registers beside O, S and P.
    overhead: u32,
}

impl Tiling {
    /// Those whose registers fit, the best first: at least one. A step divides the keys of a block or has those of two.
    pub(crate) fn candidates(spec: &KernelSpec, arch: &Arch) -> Result<Vec<Self>, PlanError> {
        let wanted = |consumers: &&Consumers| match spec.consumers {
            Some(number) => consumers.number == number,
            None => spec.bn <= consumers.widest,
        };
        let of = |consumers: &Consumers, step| Self::new(spec, *consumers, step, arch);
        let chosen: Vec<&Consumers> = CONSUMERS.iter().filter(wanted).collect();
        let Some(last) = chosen.last() else { return Err(other_consumers(spec)) };
        if let Some(step) = spec.k_step {
            let legal = step <= WIDEST_STEP && step.is_multiple_of(UNIT) && blocks(spec, step).is_some();
            let found: Vec<Self> = chosen.iter().map(|consumers| of(consumers, step)).filter(Self::fits).collect();
            return if legal && !found.is_empty() { Ok(found) } else { Err(of(last, step).refusal(spec)) };
        }
        let steps = (UNIT..=WIDEST_STEP).rev().step_by(UNIT as usize).filter(|step| blocks(spec, *step).is_some());
        let found: Vec<Self> = chosen
            .iter()
            .flat_map(|consumers| steps.clone().map(move |step| of(consumers, step)))
            .filter(Self::fits)
            .collect();
        if found.is_empty() { Err(of(last, UNIT).refusal(spec)) } else { Ok(found) }
    }

    fn new(spec: &KernelSpec, consumers: Consumers, step: u32, arch: &Arch) -> Self {
        let rows = consumers.number * WG_ROWS;
        Self {
            roles: Roles::beside(consumers.number, consumers.producer, arch),
            rows,
            step,
            blocks: blocks(spec, step).unwrap_or(1),
            columns: spec.bn,
            uniform: spec.bm.is_multiple_of(rows),
            words: (6 + consumers.number).next_multiple_of(4) + if spec.split.is_on() { PART_WORDS } else { 0 },
            overhead: consumers.overhead,
        }
    }

    /// Registers of a thread for S, O and P.
    pub(crate) fn registers(&self) -> [u32; 3] {
        [self.step / 2, self.columns / 2, self.step / 4]
    }

    /// Do the consumers take turns with the tensor cores? Two that always compute together gain by it.
    pub(crate) fn turns(&self) -> bool {
        self.uniform && self.roles.consumers == 2
    }

    fn fits(&self) -> bool {
        self.registers().iter().sum::<u32>() + self.overhead <= self.roles.consumer_registers
    }

    fn refusal(&self, spec: &KernelSpec) -> PlanError {
        let [s, o, p] = self.registers();
        PlanError::new(
            "k_step",
            format!("steps of {} keys are not planned for blocks of {}", self.step, spec.bk),
            format!(
                "a step is a multiple of {UNIT} up to {WIDEST_STEP} that divides bk or is 2 bk, and takes {s} registers of S + \
                 {o} of O + {p} of P + {} of the {} that a thread of {} consumers has",
                self.overhead, self.roles.consumer_registers, self.roles.consumers
            ),
            "drop `k_step`: the plan takes the largest that fits",
        )
    }
}

/// Blocks that a step of so many keys has keys of.
fn blocks(spec: &KernelSpec, step: u32) -> Option<u32> {
    if spec.bk.is_multiple_of(step) {
        Some(1)
    } else if step == 2 * spec.bk {
        Some(2)
    } else {
        None
    }
}

fn other_consumers(spec: &KernelSpec) -> PlanError {
    PlanError::new(
        "consumers",
        format!("an attention of {} consumers is not planned", spec.consumers.unwrap_or_default()),
        "a work tile is 64 queries of each of 2 or 3 warpgroups",
        "consumers = 2, or drop `consumers`",
    )
}
