//! Step 2: the work tile: queries of the consumers, keys of a step, registers.

use super::joined;
use crate::hopper::held::SLICE_REGISTERS;
use crate::hopper::{Roles, wgmma_k};
use crate::plan::PlanError;
use crate::scores::vectors;
use crate::spec::{Key, Scale};
use crate::{Arch, KernelSpec};

/// Queries of a consumer.
pub(crate) const WG_ROWS: u32 = 64;
/// Columns of the widest head of one consumer, of which two CTAs share an SM: ptxas compiles for 128 registers a thread, and O's
/// instruction takes those of O and 30 more.
pub(super) const WIDEST_ALONE: u32 = 192;
/// Keys of the largest step: S of more would leave no registers for O.
const WIDEST_STEP: u32 = 128;
/// Keys of the largest step for which Q is held in registers: WGMMA then reads as much of Q as of K, and shared memory would
/// limit it.
const WIDEST_HELD: u32 = 64;
/// Registers of a thread beside the slices of Q that it holds, and all else.
const BESIDE_HELD: u32 = 8;
/// Registers of factors of blocks: of two rows and a step, and what they make of exponents.
const BLOCK_FACTORS: u32 = 12;
/// Words that say which part of a tile a work tile is.
const PART_WORDS: u32 = 4;
/// Warpgroups that compute, the most first. At 64 columns a consumer waits for its own instructions more than for the tensor
/// cores, and a third one fills the time; it leaves no registers for vectors of a score. The loads of long queries take
/// registers of the producer. One alone, where it is asked for, shares its SM with another CTA: neighbouring rows of blocks then
/// load no keys together, and neither waits for the other's.
const CONSUMERS: [Consumers; 4] = [
    Consumers { number: 3, resident: 1, producer: 32, overhead: 24, most_score: 8, widest: 64, deepest: 64 },
    Consumers { number: 2, resident: 1, producer: 40, overhead: 36, most_score: u32::MAX, widest: 256, deepest: 192 },
    Consumers { number: 2, resident: 1, producer: 56, overhead: 36, most_score: u32::MAX, widest: 256, deepest: 256 },
    Consumers { number: 1, resident: 2, producer: 40, overhead: 36, most_score: u32::MAX, widest: 0, deepest: 0 },
];

#[derive(Clone, Copy, Debug)]
struct Consumers {
    number: u32,
    /// CTAs that an SM holds: one alone leaves the tensor cores idle during its softmax.
    resident: u32,
    /// Registers of a producer's thread.
    producer: u32,
    /// Registers of a consumer's thread beside O, S, P and the score: maxima, sums, addresses, descriptors.
    overhead: u32,
    /// Most registers of a score.
    most_score: u32,
    /// Most columns of V, and of Q and K, for which they are taken where nothing is said.
    widest: u32,
    deepest: u32,
}

/// The tile of one CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    pub(crate) roles: Roles,
    /// Rows of a tile: queries, each as often as heads share it.
    pub(crate) rows: u32,
    /// Heads of Q that share a tile.
    pub(crate) pack: u32,
    /// Keys of a step.
    pub(crate) step: u32,
    /// Blocks that a step has keys of: one or two.
    pub(crate) blocks: u32,
    /// Columns of Q and K.
    pub(crate) depth: u32,
    /// Columns of V and O.
    pub(crate) columns: u32,
    /// Registers of a thread for what the score keeps of its queries and its head.
    pub(crate) score: u32,
    /// Slices of Q's columns that consumers hold in registers.
    pub(crate) held: u32,
    /// All consumers compute the same blocks.
    pub(crate) uniform: bool,
    /// Words of a work tile: six, one for each consumer, and the number of keys where these are in pages, in vectors of four;
    /// and a vector more where it may be a part.
    pub(crate) words: u32,
    /// Registers beside O, S and P.
    overhead: u32,
}

impl Tiling {
    /// Those whose registers fit, the best first: at least one. A step divides the keys of a block or has those of two.
    pub(crate) fn candidates(spec: &KernelSpec, arch: &Arch) -> Result<Vec<Self>, PlanError> {
        let score = spec.score.map_or(0, |score| vectors::registers(score.program()));
        // CTAs of a cluster share tiles of which all consumers compute the same blocks: where it must be, those of one.
        let in_clusters = spec.cluster.is_some_and(|size| size > 1);
        let wanted = |consumers: &&Consumers| match spec.consumers {
            Some(number) => consumers.number == number && (number != 2 || spec.score_depth() <= consumers.deepest),
            None if in_clusters && consumers.number == 1 => spec.bn <= WIDEST_ALONE,
            None if in_clusters && !spec.bm.is_multiple_of(consumers.number * WG_ROWS) => false,
            None => spec.bn <= consumers.widest && spec.score_depth() <= consumers.deepest,
        };
        let of = |consumers: &Consumers, step| Self::new(spec, *consumers, (step, score), arch);
        let chosen: Vec<&Consumers> =
            CONSUMERS.iter().filter(wanted).filter(|consumers| score <= consumers.most_score).collect();
        let unit = wgmma_k(spec.a);
        let fits = |tiling: &Self| tiling.fits(unit) && joined::fits(spec, tiling);
        let Some(last) = chosen.last() else { return Err(other_consumers(spec, score)) };
        if let Some(step) = spec.k_step {
            let own = step <= WIDEST_STEP && blocks(spec, step).is_some();
            let legal = step.is_multiple_of(unit) && (own || joined::blocks(spec, step).is_some());
            let found: Vec<Self> = chosen.iter().map(|consumers| of(consumers, step)).filter(fits).collect();
            return if legal && !found.is_empty() { Ok(found) } else { Err(of(last, step).refusal(spec)) };
        }
        let steps = (unit..=WIDEST_STEP).rev().step_by(unit as usize).filter(|step| blocks(spec, *step).is_some());
        let of_step = |step| chosen.iter().map(move |consumers| of(consumers, step));
        let found: Vec<Self> = steps.flat_map(of_step).filter(fits).collect();
        if found.is_empty() { Err(of(last, unit).refusal(spec)) } else { Ok(found) }
    }

    fn new(spec: &KernelSpec, consumers: Consumers, (step, score): (u32, u32), arch: &Arch) -> Self {
        let rows = consumers.number * WG_ROWS;
        let (pack, joins) = (spec.pack_heads.unwrap_or(1), joined::blocks(spec, step).is_some());
        let tiling = Self {
            roles: Roles::sharing_an_sm(consumers.resident, consumers.number, consumers.producer, arch),
            rows,
            pack,
            step,
            blocks: blocks(spec, step).unwrap_or(1),
            depth: spec.score_depth(),
            columns: spec.bn,
            score,
            held: 0,
            uniform: spec.bm.is_multiple_of(rows) || joins && spec.bm.is_multiple_of(rows / pack),
            words: (6 + consumers.number + u32::from(spec.page.is_some())).next_multiple_of(4)
                + if spec.split.is_on() { PART_WORDS } else { 0 },
            overhead: consumers.overhead + if spec.scale == Scale::Block { BLOCK_FACTORS } else { 0 },
        };
        Self { held: tiling.held(wgmma_k(spec.a)), ..tiling }
    }

    /// All that there are registers for, where it helps.
    fn held(&self, unit: u32) -> u32 {
        let taken = self.registers(unit).iter().sum::<u32>() + self.overhead + self.score + BESIDE_HELD;
        let room = self.roles.consumer_registers.saturating_sub(taken) / SLICE_REGISTERS;
        if self.step > WIDEST_HELD { 0 } else { room.min(self.depth / unit) }
    }

    /// Registers of a thread for S, O and P, of which a register has four bytes; `unit` is K of a WGMMA.
    pub(crate) fn registers(&self, unit: u32) -> [u32; 3] {
        [self.step / 2, self.columns / 2, 4 * self.step / unit]
    }

    /// Do the consumers take turns with the tensor cores? Two that always compute together gain by it.
    pub(crate) fn turns(&self) -> bool {
        self.uniform && self.roles.consumers == 2
    }

    fn fits(&self, unit: u32) -> bool {
        self.registers(unit).iter().sum::<u32>() + self.overhead + self.score <= self.roles.consumer_registers
    }

    /// `128`, or `192 and 128`.
    pub(crate) fn columns_words(&self) -> String {
        match self.depth == self.columns {
            true => self.columns.to_string(),
            false => format!("{} and {}", self.depth, self.columns),
        }
    }

    fn refusal(&self, spec: &KernelSpec) -> PlanError {
        let unit = wgmma_k(spec.a);
        let [s, o, p] = self.registers(unit);
        let of_score = if self.score > 0 { format!(" + {} of the score", self.score) } else { String::new() };
        // Without the score, the step would fit: then it is the score that does not.
        let without = Self { score: 0, ..*self };
        if spec.k_step.is_none() && without.fits(unit) {
            return PlanError::new(
                Key::Score.as_str(),
                "the score does not fit the registers".to_owned(),
                format!(
                    "the score keeps {} registers for its queries and head, beside {s} of S + {o} of O + {p} of P + {} of the {} \
                     that a thread of {} consumers has",
                    self.score, self.overhead, self.roles.consumer_registers, self.roles.consumers
                ),
                "fewer vectors, or fewer values computed from vectors alone".to_owned(),
            );
        }
        PlanError::new(
            "k_step",
            format!("steps of {} keys are not supported for blocks of {}", self.step, spec.bk),
            format!(
                "a step is a multiple of {unit} up to {WIDEST_STEP} that divides bk or is 2 bk, or joins 3 to 16 blocks \
                 of keys if bm is a multiple of a tile's queries, and takes {s} registers of S + {o} of O + {p} of P + {}{of_score} of the {} that a thread of {} consumers has",
                self.overhead, self.roles.consumer_registers, self.roles.consumers
            ),
            "drop `k_step`: the plan takes the largest that fits",
        )
    }
}

/// Blocks that a step of so many keys has keys of.
///
/// Keys in pages follow each other: a step has whole pages, or a part of one.
fn blocks(spec: &KernelSpec, step: u32) -> Option<u32> {
    if let Some(page) = spec.page {
        let fits = step.is_multiple_of(page) || page.is_multiple_of(step);
        return (fits && spec.bk.is_multiple_of(step)).then_some(1);
    }
    if spec.bk.is_multiple_of(step) {
        Some(1)
    } else if step == 2 * spec.bk && spec.scale != Scale::Block {
        Some(2)
    } else {
        None
    }
}

fn other_consumers(spec: &KernelSpec, score: u32) -> PlanError {
    let number = spec.consumers.unwrap_or_default();
    let most =
        CONSUMERS.iter().filter(|consumers| consumers.number == number).map(|consumers| consumers.most_score).max();
    PlanError::new(
        "consumers",
        format!("an attention of {number} consumers is not supported"),
        match most {
            Some(most) => {
                format!("the score takes {score} registers, and a thread of {number} consumers has {most} for it")
            }
            None => "a work tile has 64 queries for each of 1, 2 or 3 consumer warpgroups".to_owned(),
        },
        "consumers = 2, or drop `consumers`",
    )
}
