//! Who loads: the warps that multiply, or others that do nothing else; and the registers that this leaves a thread.

use serde::Serialize;

use crate::hopper::Roles;
use crate::{Arch, Dtype, KernelSpec, Load, Mma, Op};

/// Registers of a thread that only multiplies beside accumulators and fragments: addresses, the ring, the work tile.
const OVERHEAD: u32 = 24;
/// What sums of f16 take beside it, which are packed two by two, and addresses of several blocks of a stage.
const FURTHER: u32 = 8;
/// The same on opaque fragments, whose places ptxas keeps.
const OPAQUE_OVERHEAD: u32 = 44;
/// The same of FP8: of PTX for sm_89, too, Hopper's compiler turns a stage's fragments into f16.
const UNPACKING_OVERHEAD: u32 = 148;
/// Parts of an SM, each with warps and registers of its own.
pub(super) const PARTS: u32 = 4;
/// Warps that load by `cp.async`: one for each part of an SM.
const COPYING_WARPS: u32 = 4;
/// Registers of a thread that loads by `cp.async`, and of one that issues TMA.
const COPYING_REGISTERS: u32 = 56;
const ISSUING_REGISTERS: u32 = 40;
/// What each of them needs beside for the places of an SDDMM's columns.
const PLACES: u32 = 16;
/// The least of these that a thread has at entry.
const LEAST_COPYING: u32 = 80;
/// Warps of a warpgroup, between which `setmaxnreg` moves registers.
const WARPGROUP: u32 = 4;

/// The warps of a CTA by what they do. Those that multiply come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Crew {
    /// Warps that multiply.
    pub(crate) consumers: u32,
    /// Warps that only load.
    pub(crate) producers: u32,
    /// Registers of a thread when the kernel begins.
    pub(crate) entry_registers: u32,
    /// Registers that `setmaxnreg` leaves a producer and gives a consumer, where a consumer needs more than at entry.
    pub(crate) moved: Option<Moved>,
}

/// Registers of a thread after `setmaxnreg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Moved {
    pub(crate) producer: u32,
    pub(crate) consumer: u32,
}

/// Registers of a thread that only multiplies, beside accumulators and fragments.
pub(crate) fn overhead(spec: &KernelSpec) -> u32 {
    match spec.mma {
        Mma::Wmma => OPAQUE_OVERHEAD,
        _ if spec.a.is_fp8() => UNPACKING_OVERHEAD,
        _ if spec.acc == Dtype::F16 || spec.k_step.is_some_and(|step| step > spec.bk) => OVERHEAD + FURTHER,
        _ => OVERHEAD,
    }
}

impl Crew {
    /// Threads that copy a stage by `cp.async` where warps that only load do, or by TMA.
    pub(super) fn copying_threads(load: Load) -> u32 {
        if load == Load::Producer { COPYING_WARPS * 32 } else { 0 }
    }

    /// That of a CTA of `consumers` warps whose threads need `registers`, `resident` CTAs sharing an SM.
    pub(crate) fn new(spec: &KernelSpec, consumers: u32, registers: u32, resident: u32, arch: &Arch) -> Self {
        let has_setmaxnreg = arch.target.ends_with('a') && consumers.is_multiple_of(WARPGROUP);
        let producers = match spec.load {
            Load::Warps => 0,
            // `setmaxnreg` is of whole warpgroups.
            Load::Tma if has_setmaxnreg => WARPGROUP,
            Load::Tma => 1,
            Load::Producer => COPYING_WARPS,
        };
        let of_a_part = ((consumers + producers) * resident).div_ceil(PARTS);
        let shared = arch.registers / (PARTS * 32) / of_a_part / arch.register_unit * arch.register_unit;
        let entry_registers = shared.min(arch.registers_per_thread);
        let own = if spec.load == Load::Tma { ISSUING_REGISTERS } else { COPYING_REGISTERS };
        let own = if spec.op == Op::Sdd { own + PLACES } else { own };
        let moved = (has_setmaxnreg && spec.load.has_roles() && registers > entry_registers).then(|| {
            let roles = Roles::sharing_an_sm(resident, consumers / WARPGROUP, own, arch);
            Moved { producer: roles.producer_registers, consumer: roles.consumer_registers }
        });
        Self { consumers, producers, entry_registers, moved }
    }

    /// Most registers that a thread that multiplies may have.
    pub(crate) fn most(&self) -> u32 {
        // A thread that loads by `cp.async` needs its own.
        let entry = if self.entry_registers < LEAST_COPYING { 0 } else { self.entry_registers };
        self.moved.map_or(entry, |moved| moved.consumer)
    }

    pub(crate) fn threads(&self) -> u32 {
        (self.consumers + self.producers) * 32
    }
}
