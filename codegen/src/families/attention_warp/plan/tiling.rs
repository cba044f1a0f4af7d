//! Step 2: the tile of a CTA: queries of its warps, keys of a step, registers.

use crate::plan::PlanError;
use crate::scores::vectors;
use crate::spec::Key;
use crate::{Arch, KernelSpec};

/// Threads of a warp.
pub(super) const WARP: u32 = 32;
/// Queries of a warp: M of `mma.sync.m16n8k16`.
pub(crate) const WARP_ROWS: u32 = 16;
/// Keys that one load of fragments of K has: N of two instructions.
pub(crate) const KEYS: u32 = 16;
/// K of an instruction, and what columns and keys are multiples of.
pub(crate) const UNIT: u32 = 16;
/// Queries of a CTA, the usual number first: 64 leave an SM room for more CTAs, which on an H100 is worth more than what 128 share.
pub(super) const ROWS: [u32; 2] = [64, 128];
/// Keys of the largest step, and of the largest that is taken unasked: more save little, and leave fewer CTAs an SM.
pub(super) const WIDEST_STEP: u32 = 128;
const USUAL_STEP: u32 = 64;
/// Registers of a thread beside O, S, Q and the score: fragments of K or V, maxima, sums, addresses.
const OVERHEAD: u32 = 70;
/// Warps of an SM beyond which more hide nothing more.
pub(super) const BUSY_WARPS: u32 = 16;

/// The tile of one CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// Queries.
    pub(crate) rows: u32,
    /// Keys of a step.
    pub(crate) step: u32,
    /// Columns of Q and K.
    pub(crate) depth: u32,
    /// Columns of V and O.
    pub(crate) columns: u32,
    /// Registers of a thread for what the score keeps of its queries and its head.
    pub(crate) score: u32,
}

/// Whether a step of so many keys divides the blocks of a spec.
pub(super) fn divides(spec: &KernelSpec, step: u32) -> bool {
    step > 0 && step <= WIDEST_STEP && step.is_multiple_of(UNIT) && spec.bk.is_multiple_of(step)
}

impl Tiling {
    /// Those whose registers fit, the best first: at least one.
    pub(super) fn candidates(spec: &KernelSpec, arch: &Arch) -> Result<Vec<Self>, PlanError> {
        let score = spec.score.map_or(0, |score| vectors::registers(score.program()));
        let rows = ROWS.into_iter().filter(|rows| match spec.cta_m {
            Some(asked) => asked == *rows,
            None => spec.bm.is_multiple_of(*rows),
        });
        let steps = |most: u32| (UNIT..=most).rev().step_by(UNIT as usize);
        let steps: Vec<u32> = match spec.k_step {
            Some(step) => vec![step],
            None => steps(USUAL_STEP).filter(|step| divides(spec, *step)).collect(),
        };
        let of = |rows, step| Self { rows, step, depth: spec.score_depth(), columns: spec.bn, score };
        let all: Vec<Self> = rows.flat_map(|rows| steps.iter().map(move |step| of(rows, *step))).collect();
        let fitting: Vec<Self> =
            all.iter().filter(|tiling| tiling.needed() <= arch.registers_per_thread).copied().collect();
        match all.last() {
            Some(last) if fitting.is_empty() => Err(last.refusal(spec, arch)),
            _ => Ok(fitting),
        }
    }

    pub(crate) fn warps(&self) -> u32 {
        self.rows / WARP_ROWS
    }

    pub(crate) fn threads(&self) -> u32 {
        self.warps() * WARP
    }

    /// Registers of a thread for O, S and Q. Probabilities take those of S.
    pub(crate) fn registers(&self) -> [u32; 3] {
        [self.columns / 2, self.step / 2, self.depth / 4]
    }

    /// Registers that a thread is expected to need.
    pub(crate) fn needed(&self) -> u32 {
        self.registers().iter().sum::<u32>() + self.score + OVERHEAD
    }

    /// CTAs that an SM has registers and threads for.
    pub(super) fn resident(&self, arch: &Arch) -> u32 {
        let of_registers = arch.registers / (self.threads() * self.needed().next_multiple_of(arch.register_unit));
        let most = of_registers.min(arch.threads_per_sm / self.threads()).min(BUSY_WARPS / self.warps());
        most.max(1)
    }

    fn refusal(&self, spec: &KernelSpec, arch: &Arch) -> PlanError {
        let [o, s, q] = self.registers();
        let (key, help) = match (spec.k_step, self.score) {
            (Some(_), _) => (Key::KStep.as_str(), "drop `k_step`: the plan takes the largest that fits"),
            (None, 1..) => (Key::Score.as_str(), "fewer vectors, or fewer values computed from vectors alone"),
            _ => ("bn", "bn = 64"),
        };
        PlanError::new(
            key,
            format!("steps of {} keys do not fit the registers", self.step),
            format!(
                "{o} of O + {s} of S + {q} of Q + {} of the score + {OVERHEAD} = {} of the {} that a thread can name",
                self.score,
                self.needed(),
                arch.registers_per_thread
            ),
            help,
        )
    }
}
