//! A block row is served by a group of threads of one warp, in which sums stay in registers.

use super::{MOST_HELD, SmallBlocksPlan};
use crate::Dtype;

/// Threads of a CTA.
pub(super) const THREADS: u32 = 256;
/// Blocks that a thread has in flight, with few columns and with many.
const IN_FLIGHT: (u32, u32) = (2, 1);
/// Registers of a thread for addresses, positions and counters.
const COUNTERS: u32 = 48;
/// Most CTAs of an SM.
const RESIDENT: u32 = 4;
/// Products of a row of a block with which two blocks in flight leave registers for values that are widened to f64.
const MOST_WIDENED: u32 = 49;
/// Columns whose sums leave registers for a second block in flight and a second CTA of an SM.
const FEW_COLUMNS: u32 = 8;

/// Blocks that a thread has in flight.
pub(super) fn in_flight(plan: &SmallBlocksPlan) -> u32 {
    let spec = &plan.spec;
    // Values of f32 are held beside what they are as f64.
    let is_full = spec.a == Dtype::F32 && spec.acc == Dtype::F64 && spec.bn * plan.inner() > MOST_WIDENED;
    if spec.bn > FEW_COLUMNS || is_full { IN_FLIGHT.1 } else { IN_FLIGHT.0 }
}

/// CTAs of an SM that the kernel leaves registers for.
pub(super) fn resident(plan: &SmallBlocksPlan) -> u32 {
    let (spec, arch) = (&plan.spec, &plan.arch);
    if spec.bn > FEW_COLUMNS {
        return 1;
    }
    let words = spec.acc.bytes() / 4;
    let held = plan.in_flight() * plan.inner() * words;
    // Elements of B that are narrower than the sums are held twice.
    let narrow = if spec.b == spec.acc { 0 } else { plan.in_flight() * plan.inner() * spec.bn };
    let registers = COUNTERS + 2 * held + 2 * spec.bn * words + narrow.min(MOST_HELD);
    let most = RESIDENT.min(arch.threads_per_sm / THREADS);
    (arch.registers / (registers * THREADS)).clamp(1, most)
}
