//! The limits of the GPU architectures, each in one place.

use serde::Serialize;

use crate::words::Target;

/// What a plan may spend on one streaming multiprocessor (SM).
///
/// Figures are from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", and the PTX ISA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Arch {
    /// The `.target` directive.
    pub target: &'static str,
    /// The lowest `.version` that has every instruction we emit for this target.
    pub ptx_version: &'static str,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// 32-bit registers of an SM.
    pub registers: u32,
    /// Most registers that one thread can name.
    pub registers_per_thread: u32,
    /// Registers are counted in units of this many a thread.
    pub register_unit: u32,
    /// Shared memory that one CTA can opt in to, in bytes.
    pub shared_bytes: u32,
    /// Shared memory of an SM, in bytes.
    pub shared_bytes_per_sm: u32,
    /// Shared memory that the system takes from every CTA, in bytes.
    pub shared_bytes_reserved: u32,
    /// Threads of a warpgroup, the unit that issues WGMMA.
    pub warpgroup: u32,
    /// Most threads of a CTA.
    pub threads_per_cta: u32,
    /// Most threads of an SM.
    pub threads_per_sm: u32,
    /// Most CTAs of a portable cluster.
    pub cluster: u32,
    /// Most elements of a TMA box along one dimension.
    pub tma_box: u32,
    /// Widest N of a WGMMA instruction.
    pub wgmma_n: u32,
    /// Copies from global to shared memory without registers (`cp.async`).
    pub cp_async: bool,
}

impl Arch {
    /// Volta (V100). 6.0 brings `wmma` with mixed precision.
    #[doc(hidden)]
    pub const SM_70: Self = Self {
        target: "sm_70",
        ptx_version: "6.3",
        compute_capability: (7, 0),
        registers: 65_536,
        registers_per_thread: 255,
        register_unit: 8,
        shared_bytes: 98_304,
        shared_bytes_per_sm: 98_304,
        shared_bytes_reserved: 0,
        warpgroup: 128,
        threads_per_cta: 1024,
        threads_per_sm: 2048,
        cluster: 1,
        tma_box: 0,
        wgmma_n: 0,
        cp_async: false,
    };

    /// Turing (T4). 6.5 brings `ldmatrix`.
    #[doc(hidden)]
    pub const SM_75: Self = Self {
        target: "sm_75",
        ptx_version: "6.5",
        compute_capability: (7, 5),
        shared_bytes: 65_536,
        shared_bytes_per_sm: 65_536,
        threads_per_sm: 1024,
        ..Self::SM_70
    };

    /// Ampere (A100). 7.0 brings `cp.async`, `mma.sync.m16n8k16` and bf16.
    #[doc(hidden)]
    pub const SM_80: Self = Self {
        target: "sm_80",
        ptx_version: "7.0",
        compute_capability: (8, 0),
        shared_bytes: 166_912,
        shared_bytes_per_sm: 167_936,
        shared_bytes_reserved: 1024,
        threads_per_sm: 2048,
        cp_async: true,
        ..Self::SM_70
    };

    /// Ampere of workstations and games (A10, A40, RTX 3090), with less shared memory than [an A100](Self::SM_80). 7.1 brings
    /// the target.
    #[doc(hidden)]
    pub const SM_86: Self = Self {
        target: "sm_86",
        ptx_version: "7.1",
        compute_capability: (8, 6),
        shared_bytes: 101_376,
        shared_bytes_per_sm: 102_400,
        threads_per_sm: 1536,
        ..Self::SM_80
    };

    /// Ada Lovelace (L4, L40, RTX 4090). 8.4 brings `mma.sync` on FP8.
    #[doc(hidden)]
    pub const SM_89: Self = Self { target: "sm_89", ptx_version: "8.4", compute_capability: (8, 9), ..Self::SM_86 };

    /// Hopper with its architecture-specific instructions (H100, H200, GH200). 8.0 brings `wgmma`, `setmaxnreg`,
    /// `cp.async.bulk.tensor` and `elect.sync`.
    #[doc(hidden)]
    pub const SM_90A: Self = Self {
        target: "sm_90a",
        ptx_version: "8.0",
        compute_capability: (9, 0),
        shared_bytes: 232_448,
        shared_bytes_per_sm: 233_472,
        threads_per_sm: 2048,
        cluster: 8,
        tma_box: 256,
        wgmma_n: 256,
        ..Self::SM_80
    };

    /// Blackwell of workstations and games (RTX PRO 6000, RTX 5090): clusters and TMA, but no `wgmma`. 8.7 brings the target.
    #[doc(hidden)]
    pub const SM_120: Self = Self {
        target: "sm_120",
        ptx_version: "8.7",
        compute_capability: (12, 0),
        cluster: 8,
        tma_box: 256,
        ..Self::SM_89
    };

    /// The limits of a target.
    pub const fn of(target: Target) -> &'static Self {
        match target {
            Target::Sm70 => &Self::SM_70,
            Target::Sm75 => &Self::SM_75,
            Target::Sm80 => &Self::SM_80,
            Target::Sm86 => &Self::SM_86,
            Target::Sm89 => &Self::SM_89,
            Target::Sm90a => &Self::SM_90A,
            Target::Sm120 => &Self::SM_120,
        }
    }

    /// The limits of a GPU of this compute capability, as far as they are known: of [its target](Target::of_gpu).
    #[doc(hidden)]
    pub fn of_gpu(capability: (u32, u32)) -> Option<&'static Self> {
        Target::of_gpu(capability).map(Self::of)
    }
}

impl Target {
    /// The newest target whose code a GPU of this compute capability runs; none before Volta. A kernel that is planned for it
    /// keeps the GPU's limits; one for an older target may need more shared memory than the GPU has.
    #[doc(hidden)]
    pub fn of_gpu(capability: (u32, u32)) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|target| target_runs_on(target.as_str(), capability) == Some(true))
    }
}

/// Whether `sm_XYs` code runs on a compute capability: code of a plain target on any from its own on, of one with `a` on its own
/// alone, of one with `f` on later ones of its major. `None` if the target has another form.
#[doc(hidden)]
pub fn target_runs_on(target: &str, capability: (u32, u32)) -> Option<bool> {
    let digits = target.strip_prefix("sm_")?;
    let (digits, suffix) = match digits.strip_suffix(['a', 'f']) {
        Some(digits) => (digits, target.chars().next_back()),
        None => (digits, None),
    };
    let number: u32 = digits.parse().ok()?;
    let wanted = (number / 10, number % 10);
    Some(match suffix {
        Some('a') => capability == wanted,
        Some(_) => capability.0 == wanted.0 && capability.1 >= wanted.1,
        None => capability >= wanted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_specific_target_runs_on_its_own_capability_alone() {
        assert_eq!(target_runs_on("sm_90a", (9, 0)), Some(true));
        assert_eq!(target_runs_on("sm_90a", (10, 0)), Some(false));
        assert_eq!(target_runs_on("sm_90a", (12, 0)), Some(false));
        assert_eq!(target_runs_on("sm_90a", (8, 9)), Some(false));
        assert_eq!(target_runs_on("sm_90", (10, 0)), Some(true));
        assert_eq!(target_runs_on("sm_90", (8, 9)), Some(false));
        assert_eq!(target_runs_on("sm_100f", (10, 3)), Some(true));
        assert_eq!(target_runs_on("sm_100f", (12, 0)), Some(false));
        assert_eq!(target_runs_on("texmode_unified", (9, 0)), None);
    }

    #[test]
    fn a_gpu_has_its_own_architecture_or_the_newest_older_one() {
        for (capability, target) in [
            ((6, 1), None),
            ((7, 0), Some("sm_70")),
            ((7, 5), Some("sm_75")),
            ((8, 0), Some("sm_80")),
            ((8, 6), Some("sm_86")),
            ((8, 9), Some("sm_89")),
            ((9, 0), Some("sm_90a")),
            ((10, 0), Some("sm_89")),
            ((12, 0), Some("sm_120")),
            ((12, 1), Some("sm_120")),
        ] {
            assert_eq!(Arch::of_gpu(capability).map(|arch| arch.target), target, "{capability:?}");
        }
    }

    /// What the name says is what the figures are of.
    #[test]
    fn targets_are_in_the_order_of_their_capabilities() {
        let archs = Target::ALL.map(Arch::of);
        assert!(archs.is_sorted_by_key(|arch| arch.compute_capability));
        for arch in archs {
            assert_eq!(target_runs_on(arch.target, arch.compute_capability), Some(true), "{}", arch.target);
        }
    }
}
