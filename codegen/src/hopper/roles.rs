//! Step 2: warpgroup roles and the register split between them.

use serde::Serialize;

use crate::Arch;

/// What the producer's loop needs: `ptxas` spills with 32.
const PRODUCER_REGISTERS: u32 = 40;
/// The same where it chooses between two tensor maps of B and distributes factors of blocks.
const BUSY_PRODUCER_REGISTERS: u32 = 56;
/// Registers that a consumer needs beside its accumulators: descriptors, addresses, predicates, the work tile.
pub(crate) const CONSUMER_OVERHEAD: u32 = 41;
/// The same beside sums that wait for promotion: they are added and gone before anything else is addressed.
const PROMOTING_OVERHEAD: u32 = 40;
/// The same while a packed copy of the accumulators is alive, from the end of a tile through the next one's prologue.
const BETWEEN_TILES: u32 = 24;

/// Registers that `ptxas` wants at entry beside the accumulators of one WGMMA (its diagnostic C7602).
const WGMMA_OVERHEAD: u32 = 26;

/// One producer warpgroup feeds `consumers` warpgroups that own the accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Roles {
    pub(crate) consumers: u32,
    pub(crate) threads: u32,
    /// CTAs of this size that an SM holds.
    pub(crate) resident: u32,
    /// Registers a thread at kernel entry: what `ptxas` gives a CTA of this many threads.
    pub(crate) entry_registers: u32,
    pub(crate) producer_registers: u32,
    pub(crate) consumer_registers: u32,
}

impl Roles {
    /// The size of the CTA, and how many of them an SM holds.
    pub(crate) fn directives(&self) -> Vec<String> {
        vec![format!(".maxntid {}, 1, 1", self.threads), format!(".minnctapersm {}", self.resident)]
    }

    /// The split for `consumers` warpgroups: the producer gives up registers (`setmaxnreg.dec`), each consumer
    /// takes an equal share of what is freed (`setmaxnreg.inc`), and the CTA never holds more than at entry.
    pub(crate) fn new(consumers: u32, busy_producer: bool, arch: &Arch) -> Self {
        Self::beside(consumers, if busy_producer { BUSY_PRODUCER_REGISTERS } else { PRODUCER_REGISTERS }, arch)
    }

    /// The same with a producer of so many registers a thread.
    pub(crate) fn beside(consumers: u32, producer_registers: u32, arch: &Arch) -> Self {
        Self::sharing_an_sm(1, consumers, producer_registers, arch)
    }

    /// The same where an SM holds `resident` such CTAs.
    pub(crate) fn sharing_an_sm(resident: u32, consumers: u32, producer_registers: u32, arch: &Arch) -> Self {
        let threads = (consumers + 1) * arch.warpgroup;
        let unit = arch.register_unit;
        let most = arch.registers_per_thread / unit * unit;
        let entry_registers = (arch.registers / resident / threads / unit * unit).min(most);
        let freed = entry_registers * (consumers + 1) - producer_registers;
        let consumer_registers = (freed / consumers / unit * unit).min(240);
        Self { consumers, threads, resident, entry_registers, producer_registers, consumer_registers }
    }

    /// Can `ptxas` compile a WGMMA of so many accumulators a thread? It wants them within the registers at entry.
    pub(crate) fn compiles(&self, accumulators: u32) -> bool {
        accumulators + WGMMA_OVERHEAD <= self.entry_registers
    }

    /// Do `accumulators` registers a thread fit?
    pub(crate) fn holds(&self, accumulators: u32) -> bool {
        accumulators + CONSUMER_OVERHEAD <= self.consumer_registers
    }

    /// Do they fit beside `partials` sums that wait for promotion?
    pub(crate) fn holds_with_partials(&self, accumulators: u32, partials: u32) -> bool {
        accumulators + partials + PROMOTING_OVERHEAD <= self.consumer_registers
    }

    /// Do the accumulators fit together with a 16-bit copy of `packed` registers, kept while the next tile starts?
    pub(crate) fn holds_with_packed(&self, accumulators: u32, packed: u32) -> bool {
        self.holds(accumulators) && accumulators + packed + BETWEEN_TILES <= self.consumer_registers
    }
}
