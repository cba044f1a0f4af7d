//! The limits of one GPU architecture, each in one place.

use serde::Serialize;

/// What a plan may spend on one streaming multiprocessor (SM).
///
/// Figures for `sm_90a` are from the CUDA C++ Programming Guide, "Compute Capability 9.0", and the PTX ISA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Arch {
    /// The `.target` directive.
    pub target: &'static str,
    /// The lowest `.version` that has every instruction we emit for this target: 8.0 brings `wgmma`,
    /// `setmaxnreg`, `cp.async.bulk.tensor` and `elect.sync`.
    pub ptx_version: &'static str,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// 32-bit registers of an SM.
    pub registers: u32,
    /// Most registers that one thread can name.
    pub registers_per_thread: u32,
    /// `setmaxnreg` counts registers in units of this many.
    pub register_unit: u32,
    /// Shared memory that one CTA can opt in to, in bytes.
    pub shared_bytes: u32,
    /// Threads of a warpgroup, the unit that issues WGMMA.
    pub warpgroup: u32,
    /// Most threads of a CTA.
    pub threads_per_cta: u32,
    /// Most CTAs of a portable cluster.
    pub cluster: u32,
    /// Most elements of a TMA box along one dimension.
    pub tma_box: u32,
    /// Widest N of a WGMMA instruction.
    pub wgmma_n: u32,
}

impl Arch {
    /// Hopper with its architecture-specific instructions (H100, H200, GH200).
    pub const SM_90A: Self = Self {
        target: "sm_90a",
        ptx_version: "8.0",
        compute_capability: (9, 0),
        registers: 65_536,
        registers_per_thread: 255,
        register_unit: 8,
        shared_bytes: 232_448,
        warpgroup: 128,
        threads_per_cta: 1024,
        cluster: 8,
        tma_box: 256,
        wgmma_n: 256,
    };
}
