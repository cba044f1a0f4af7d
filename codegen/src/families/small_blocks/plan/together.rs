//! A CTA reads the blocks of all its block rows together, whatever rows they are of, and a thread adds up each row of C.
//!
//! What is read is then one run of memory for each CTA: neighbouring threads read neighbouring values, all threads have blocks however
//! long rows are, and no load waits for the end of a row (CSR-stream: Greathouse and Daga, SC 2014). A thread multiplies a row of a
//! block; its products wait in shared memory.

use crate::plan::{PlanError, PlanErrors};
use crate::{Arch, IndexWidth, KernelSpec};

/// What `lanes` says of it: the threads that add up a row of C.
pub(super) const LANES: u32 = 1;
/// Threads of a CTA.
pub(super) const THREADS: u32 = 128;
/// Most columns of B.
const MOST_COLUMNS: u32 = 2;
/// Bytes that the sums of a column of a thread's blocks take, and registers that their values and what is held beside them do.
const SUM_BYTES: u32 = 32;
const HELD: u32 = 28;
/// Registers of a thread for addresses, positions and counters.
const COUNTERS: u32 = 40;
/// The same for the lines of B, where it has several columns.
const LINES: u32 = 8;
/// Most CTAs of an SM.
const RESIDENT: u32 = 8;

/// Refuses what does not have this form.
pub(super) fn check(spec: &KernelSpec, errors: &mut PlanErrors) {
    if spec.lanes != Some(LANES) {
        return;
    }
    let mut refuse = |fact: &str, why: &str, help: &str| {
        errors.push(PlanError::new("lanes", format!("lanes = {LANES} is not supported with {fact}"), why, help));
    };
    if spec.bn > MOST_COLUMNS {
        let why = format!("the products of a block wait in shared memory, of up to {MOST_COLUMNS} columns");
        refuse(&format!("bn = {}", spec.bn), &why, &format!("bn = {MOST_COLUMNS}, or drop `lanes`"));
    }
    if spec.transpose.is_on() {
        refuse(
            "transpose = on",
            "the blocks of a column are no neighbours in memory, to be read together",
            "drop `lanes`",
        );
    }
    if spec.row_ptr == IndexWidth::I64 {
        refuse(
            "row_ptr = i64",
            "blocks of several rows are counted together, in 32 bits",
            "row_ptr = i32, or drop `lanes`",
        );
    }
}

/// Blocks that a thread has in flight: as many as its registers hold the rows of, a power of two.
pub(super) fn in_flight(spec: &KernelSpec) -> u32 {
    let bytes = spec.acc.bytes();
    let rows = HELD / (spec.bk * bytes / 4);
    1 << rows.min(SUM_BYTES / bytes).max(1).ilog2()
}

/// Bytes of shared memory: the products of each block in flight of each thread.
pub(super) fn shared_bytes(spec: &KernelSpec) -> u32 {
    in_flight(spec) * (THREADS / spec.bm * spec.bm) * spec.bn * spec.acc.bytes()
}

/// CTAs of an SM that the kernel leaves registers for.
pub(super) fn resident(spec: &KernelSpec, arch: &Arch) -> u32 {
    let words = spec.acc.bytes() / 4;
    let is_widened = spec.a != spec.acc || spec.b != spec.acc;
    // The rows of the blocks in flight, a line of B and a sum for each column.
    let held = (in_flight(spec) * spec.bk + spec.bn * (spec.bk + 1)) * words;
    let addresses = if spec.bn > 1 { COUNTERS + LINES } else { COUNTERS };
    let registers = addresses + held * if is_widened { 2 } else { 1 };
    let most = RESIDENT
        .min(arch.threads_per_sm / THREADS)
        .min(arch.shared_bytes_per_sm / (shared_bytes(spec) + arch.shared_bytes_reserved));
    (arch.registers / (registers * THREADS)).clamp(1, most)
}
