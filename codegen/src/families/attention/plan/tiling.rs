//! Step 2: the work tile: queries of the consumers, keys of a step, registers.

use crate::epilogue::{InputKind, Lines, Program};
use crate::hopper::Roles;
use crate::plan::PlanError;
use crate::spec::Key;
use crate::{Arch, KernelSpec};

/// Warpgroups that compute, and queries of each.
const CONSUMERS: u32 = 2;
pub(crate) const WG_ROWS: u32 = 64;
/// Keys of the largest step: S of more would leave no registers for O.
const WIDEST_STEP: u32 = 128;
/// K of one WGMMA.
const UNIT: u32 = 16;
/// Registers of a consumer's thread beside O, S and P: maxima, sums, addresses, descriptors.
const OVERHEAD: u32 = 36;

/// Queries of a thread.
const THREAD_ROWS: u32 = 2;
/// Most elements of a score's vectors by key that are loaded together, but for those of one pair of keys.
pub(crate) const MOST_LOADS: u32 = 16;

/// Registers that a score takes beside products: what it makes of the thread's queries and of the head, which is kept while a
/// tile is computed, and addresses and elements of vectors by key.
fn score_registers(program: &Program) -> u32 {
    let by_key = program.inputs().iter().filter(|input| matches!(input.kind, InputKind::Cols(_))).count() as u32;
    let loads = if by_key > 0 { MOST_LOADS.max(2 * by_key) } else { 0 };
    Lines::row_registers(program, THREAD_ROWS) + Lines::uniform_registers(program) + 2 * by_key + loads
}

/// The tile of one CTA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    pub(crate) roles: Roles,
    /// Queries of a tile.
    pub(crate) rows: u32,
    /// Keys of a step.
    pub(crate) step: u32,
    /// Columns of Q and K.
    pub(crate) depth: u32,
    /// Columns of V and O.
    pub(crate) columns: u32,
    /// Registers of a thread for what the score keeps of its queries and its head.
    pub(crate) score: u32,
    /// Both consumers compute the same blocks.
    pub(crate) uniform: bool,
}

impl Tiling {
    /// Those whose steps divide the keys of a block and whose registers fit, the largest step first: at least one.
    pub(crate) fn candidates(spec: &KernelSpec, arch: &Arch) -> Result<Vec<Self>, PlanError> {
        let roles = Roles::new(CONSUMERS, false, arch);
        let rows = CONSUMERS * WG_ROWS;
        let score = spec.score.map_or(0, |score| score_registers(score.program()));
        let (depth, columns, uniform) = (spec.score_depth(), spec.bn, spec.bm.is_multiple_of(rows));
        let of_step = |step| Self { roles, rows, step, depth, columns, score, uniform };
        let divides = |step: &u32| spec.bk.is_multiple_of(*step);
        if let Some(step) = spec.k_step {
            let tiling = of_step(step);
            let fits = step <= WIDEST_STEP && step.is_multiple_of(UNIT) && divides(&step) && tiling.fits();
            return if fits { Ok(vec![tiling]) } else { Err(tiling.refusal(spec)) };
        }
        let steps = (UNIT..=WIDEST_STEP).rev().step_by(UNIT as usize).filter(divides);
        let found: Vec<Self> = steps.map(of_step).filter(Self::fits).collect();
        if found.is_empty() { Err(of_step(UNIT).refusal(spec)) } else { Ok(found) }
    }

    /// Registers of a thread for S, O and P.
    pub(crate) fn registers(&self) -> [u32; 3] {
        [self.step / 2, self.columns / 2, self.step / 4]
    }

    fn fits(&self) -> bool {
        self.registers().iter().sum::<u32>() + OVERHEAD + self.score <= self.roles.consumer_registers
    }

    /// `128`, or `192 and 128`.
    pub(crate) fn columns_words(&self) -> String {
        match self.depth == self.columns {
            true => self.columns.to_string(),
            false => format!("{} and {}", self.depth, self.columns),
        }
    }

    fn refusal(&self, spec: &KernelSpec) -> PlanError {
        let [s, o, p] = self.registers();
        let of_score = if self.score > 0 { format!(" + {} of the score", self.score) } else { String::new() };
        // Without the score, the step would fit: then it is the score that does not.
        let without = Self { score: 0, ..*self };
        if spec.k_step.is_none() && without.fits() {
            return PlanError::new(
                Key::Score.as_str(),
                "the score does not fit the registers".to_owned(),
                format!(
                    "{} registers of what it keeps of queries and heads, beside {s} of S + {o} of O + {p} of P + {OVERHEAD} of \
                     the {} that a consumer's thread has",
                    self.score, self.roles.consumer_registers
                ),
                "fewer vectors, or fewer values that are computed of them alone".to_owned(),
            );
        }
        PlanError::new(
            "k_step",
            format!("steps of {} keys are not planned for blocks of {}", self.step, spec.bk),
            format!(
                "a step is a multiple of {UNIT} up to {WIDEST_STEP} that divides bk, and takes {s} registers of S + {o} of O + \
                 {p} of P + {OVERHEAD}{of_score} of the {} that a consumer's thread has",
                self.roles.consumer_registers
            ),
            "drop `k_step`: the plan takes the largest that fits",
        )
    }
}
