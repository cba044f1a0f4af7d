//! A block row is served by a group of threads of one warp, in which sums stay in registers.

use crate::{Arch, Dtype, KernelSpec};

/// Threads of a CTA.
pub(super) const THREADS: u32 = 256;
/// Blocks that a thread has in flight, with few columns and with many.
const IN_FLIGHT: (u32, u32) = (2, 1);
/// Registers of a thread for addresses, positions and counters.
const COUNTERS: u32 = 48;
/// Most CTAs of an SM.
const RESIDENT: u32 = 4;
/// Elements of B that a thread may have in flight at once, beside those of its blocks.
pub(in super::super) const MOST_HELD: u32 = 32;
/// Products of a row of a block with which two blocks in flight leave registers for values that are widened to f64.
const MOST_WIDENED: u32 = 49;
/// Columns whose sums leave registers for a second block in flight and a second CTA of an SM.
const FEW_COLUMNS: u32 = 8;

/// Blocks that a thread has in flight, of `inner` columns as they are multiplied.
pub(super) fn in_flight(spec: &KernelSpec, inner: u32) -> u32 {
    // Values of f32 are held beside what they are as f64.
    let is_full = spec.a == Dtype::F32 && spec.acc == Dtype::F64 && spec.bn * inner > MOST_WIDENED;
    if spec.bn > FEW_COLUMNS || is_full { IN_FLIGHT.1 } else { IN_FLIGHT.0 }
}

/// CTAs of an SM that the kernel leaves registers for.
pub(super) fn resident(spec: &KernelSpec, inner: u32, arch: &Arch) -> u32 {
    if spec.bn > FEW_COLUMNS {
        return 1;
    }
    let words = spec.acc.bytes() / 4;
    let held = in_flight(spec, inner) * inner * words;
    // Elements of B that are narrower than the sums are held twice.
    let narrow = if spec.b == spec.acc { 0 } else { in_flight(spec, inner) * inner * spec.bn };
    let registers = COUNTERS + 2 * held + 2 * spec.bn * words + narrow.min(MOST_HELD);
    let most = RESIDENT.min(arch.threads_per_sm / THREADS);
    (arch.registers / (registers * THREADS)).clamp(1, most)
}
