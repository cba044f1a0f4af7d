//! Step 2: the work tile: queries of the consumers, keys of a step, registers.

use crate::hopper::Roles;
use crate::plan::PlanError;
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
    /// Columns of a head.
    pub(crate) columns: u32,
    /// Both consumers compute the same blocks.
    pub(crate) uniform: bool,
}

impl Tiling {
    /// Those whose steps divide the keys of a block and whose registers fit, the largest step first: at least one.
    pub(crate) fn candidates(spec: &KernelSpec, arch: &Arch) -> Result<Vec<Self>, PlanError> {
        let roles = Roles::new(CONSUMERS, false, arch);
        let rows = CONSUMERS * WG_ROWS;
        let pack = spec.pack.unwrap_or(1);
        let of_step = |step| Self { roles, rows, pack, step, columns: spec.bn, uniform: spec.bm.is_multiple_of(rows) };
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
        self.registers().iter().sum::<u32>() + OVERHEAD <= self.roles.consumer_registers
    }

    fn refusal(&self, spec: &KernelSpec) -> PlanError {
        let [s, o, p] = self.registers();
        PlanError::new(
            "k_step",
            format!("steps of {} keys are not planned for blocks of {}", self.step, spec.bk),
            format!(
                "a step is a multiple of {UNIT} up to {WIDEST_STEP} that divides bk, and takes {s} registers of S + {o} of O + \
                 {p} of P + {OVERHEAD} of the {} that a consumer's thread has",
                self.roles.consumer_registers
            ),
            "drop `k_step`: the plan takes the largest that fits",
        )
    }
}
