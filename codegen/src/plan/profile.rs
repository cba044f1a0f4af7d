//! What of a plan its speed depends on, in numbers that all families share; and which choices of a spec do not change its kernel.

use crate::spec::{Accumulate, Scale, Schedule};
use crate::{KernelSpec, Op};

/// How a kernel divides its work, and what it keeps in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// What multiplies.
    pub kind: KernelKind,
    /// Rows that one CTA computes: of C, or of C^T where B is sparse; of the left factor for an SDDMM.
    pub cta_m: u32,
    /// Columns that one CTA computes.
    pub cta_n: u32,
    /// Warpgroups that multiply, or warps where there are no warpgroups.
    pub consumers: u32,
    /// Rows and columns of a consumer's share of the tile.
    pub share: (u32, u32),
    /// Columns of one matrix instruction: N of WGMMA. For swap-AB these are rows of a block.
    pub instruction_n: u32,
    /// Stages of the ring in shared memory; 1 where there is none.
    pub stages: u32,
    /// Elements of K that a stage holds, all blocks of it together; for swap-AB, that a full stage holds.
    pub stage_k: u32,
    /// Elements of K of a block that one block takes in shared memory, with what stages load beyond it.
    pub held_k: u32,
    /// Stages that one block takes, and blocks that one stage gathers: one of the two is 1.
    pub stages_per_block: (u32, u32),
    /// Which operand the CTAs of a cluster load once.
    pub multicast: Multicast,
    /// CTAs of a cluster.
    pub cluster: u32,
    /// Block rows that share a tile.
    pub pack: u32,
    /// Bytes of the shortest row of shared memory that a bulk copy fills, of the sparse operand and of the dense one.
    pub copied_rows: (u32, u32),
    /// The epilogue is overlapped: a finished tile is stored while the next one is computed. Otherwise it is serial.
    pub overlapped: bool,
    /// FP8 sums are added to f32 registers every so often.
    pub promoted: bool,
    /// CTAs that an SM holds.
    pub resident: u32,
    /// Sets of fragments that a warp has: with two it loads those of the next instruction while this one runs.
    pub fragment_sets: u32,
    /// Registers that a thread needs beyond those that its spec leaves it (`maxnreg`).
    pub spilled: u32,
    /// Trips to memory, one after the other, in which a tile reads the full operand of its epilogue.
    pub operand_trips: u32,
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelKind {
    /// Warpgroups, fed by TMA.
    Wgmma,
    /// Swap-AB: the same with dense columns as the rows of WGMMA, over tiles of several block rows.
    SwapAb,
    /// SDDMM: the same, for the stored blocks of a dense product.
    Sddmm,
    /// Attention: two products with a softmax between them, on the stored blocks of the first.
    Attention,
    /// Attention by warps on fragments that `ldmatrix` loads.
    AttentionWarps,
    /// Warps on fragments that `ldmatrix` loads.
    MmaSync,
    /// The same, or on opaque fragments, fed by warps that only load.
    Fed {
        /// These load by TMA, or else by `cp.async`.
        by_tma: bool,
        /// Fragments are opaque.
        opaque: bool,
    },
    /// Warps on fragments of f64.
    Doubles {
        /// Multiply-adds that an SM does in a cycle.
        rate: u32,
    },
    /// Warps on opaque fragments; with copies to shared memory that pass through registers, if not asynchronous.
    Wmma {
        /// Copies need no registers.
        asynchronous: bool,
    },
    /// CUDA cores, one CTA a stored block.
    Atomic,
    /// CUDA cores, element by element.
    Register,
    /// CUDA cores, 16 bytes a load.
    Vector,
    /// CUDA cores, a group of threads for each row of small blocks: bound by memory.
    SmallBlocks,
    /// The same of a CTA that reads the blocks of all its rows together.
    SmallBlocksTogether,
}

/// The threads that issue a kernel's multiplications together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Warpgroups, for which a producer's warpgroup loads.
    Warpgroups,
    /// Warps, on fragments.
    Warps,
    /// Threads, on CUDA cores.
    Threads,
}

impl KernelKind {
    /// What issues its multiplications.
    #[doc(hidden)]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Wgmma | Self::SwapAb | Self::Sddmm | Self::Attention => Unit::Warpgroups,
            Self::MmaSync | Self::Fed { .. } | Self::AttentionWarps | Self::Doubles { .. } | Self::Wmma { .. } => {
                Unit::Warps
            }
            Self::Atomic | Self::Register | Self::Vector | Self::SmallBlocks | Self::SmallBlocksTogether => {
                Unit::Threads
            }
        }
    }

    /// Whether a producer's warpgroup loads for those of consumers, which use WGMMA.
    #[doc(hidden)]
    pub const fn has_roles(self) -> bool {
        matches!(self.unit(), Unit::Warpgroups)
    }
}

/// What the CTAs of a cluster share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Multicast {
    /// Nothing.
    Nothing,
    /// The sparse operand, over column tiles.
    Sparse,
    /// The dense operand, over row slices of a block.
    Dense,
}

impl Profile {
    /// What most families do not have.
    pub(crate) const PLAIN: Self = Self {
        kind: KernelKind::Register,
        cta_m: 0,
        cta_n: 0,
        consumers: 1,
        share: (0, 0),
        instruction_n: 0,
        stages: 1,
        stage_k: 0,
        held_k: 0,
        stages_per_block: (1, 1),
        multicast: Multicast::Nothing,
        cluster: 1,
        pack: 1,
        copied_rows: (128, 128),
        overlapped: false,
        promoted: false,
        resident: 1,
        fragment_sets: 1,
        spilled: 0,
        operand_trips: 0,
    };
}

/// A spec without the choices whose outcome a plan holds in other fields.
pub(super) fn settled(spec: &KernelSpec) -> KernelSpec {
    let by_default = match spec.accumulate {
        Some(Accumulate::Register) => true,
        Some(Accumulate::Fast) => spec.scale != Scale::Block,
        Some(Accumulate::Promoted) => spec.scale == Scale::Block,
        Some(Accumulate::Atomic) | None => false,
    };
    KernelSpec {
        // SDDMM's tile is so many whole panels of a block's columns, which its plan holds.
        bn: if spec.op == Op::Sdd { 0 } else { spec.bn },
        accumulate: spec.accumulate.filter(|_| !by_default),
        arch: None,
        cta_m: None,
        warps: None,
        shape: None,
        vector: None,
        lanes: None,
        stages: None,
        consumers: None,
        cluster: None,
        k_step: None,
        // SDDMM has a third way to assign tiles to CTAs, which no value of the key names.
        schedule: spec.schedule.or((spec.op != Op::Sdd).then_some(Schedule::Balanced)),
        swizzle: None,
        swap: None,
        pack: None,
        pack_heads: None,
        ..*spec
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Plan;

    fn plan(text: &str) -> Plan {
        Plan::new(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn every_family_tells_what_its_table_tells() {
        let of = |text: &str| plan(text).profile();
        let flagship = of("bm = 512, bn = 128, bk = 112");
        assert_eq!((flagship.kind, flagship.cta_m, flagship.cta_n), (KernelKind::Wgmma, 256, 128));
        assert_eq!((flagship.consumers, flagship.share, flagship.instruction_n), (2, (128, 128), 128));
        assert_eq!((flagship.stages, flagship.stage_k, flagship.stages_per_block), (4, 64, (2, 1)));
        assert_eq!((flagship.multicast, flagship.overlapped, flagship.promoted), (Multicast::Nothing, true, false));
        assert_eq!(of("bm = 512, bn = 128, bk = 112, cluster = 2").multicast, Multicast::Dense);
        assert_eq!(of("bm = 128, bn = 256, bk = 128, cluster = 2").multicast, Multicast::Sparse);
        assert!(!of("bm = 128, bn = 256, bk = 64, beta = on").overlapped);
        assert!(of("bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted").promoted);
        assert_eq!(of("bm = 128, bn = 256, bk = 32").stages_per_block, (1, 2));

        let swap_ab = of("bm = 16, bn = 256, bk = 16, pack = 4");
        assert_eq!((swap_ab.kind, swap_ab.pack, swap_ab.instruction_n), (KernelKind::SwapAb, 4, 16));
        assert_eq!((swap_ab.cta_m, swap_ab.cta_n, swap_ab.held_k), (64, 256, 16));
        assert_eq!(of("bm = 128, bn = 256, bk = 128, op = sdd").kind, KernelKind::Sddmm);

        let warps = of("bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (2, 4), stages = 3");
        assert_eq!((warps.kind, warps.consumers, warps.share, warps.stages), (KernelKind::MmaSync, 8, (64, 32), 3));
        assert_eq!((warps.fragment_sets, warps.operand_trips, warps.copied_rows), (2, 0, Profile::PLAIN.copied_rows));
        let fed = of("bm = 128, bn = 256, bk = 32, mma = mma_sync, load = tma, beta = on");
        assert_eq!((fed.fragment_sets, fed.operand_trips, fed.copied_rows), (2, 3, (64, 128)));
        let divided = of("bm = 128, bn = 256, bk = 128, mma = mma_sync, split = auto, maxnreg = 168");
        assert_eq!((divided.fragment_sets, divided.spilled, warps.spilled), (1, 236 - 168, 0));
        assert_eq!(of("bm = 64, bn = 64, bk = 64, mma = wmma").kind, KernelKind::Wmma { asynchronous: true });
        assert_eq!(
            of("bm = 64, bn = 64, bk = 64, mma = wmma, arch = sm_70").kind,
            KernelKind::Wmma { asynchronous: false }
        );
        assert_eq!(of("bm = 64, bn = 64, bk = 64, mma = scalar").kind, KernelKind::Register);
        assert_eq!(of("bm = 64, bn = 64, bk = 64, mma = scalar, vector = 8").kind, KernelKind::Vector);
        assert_eq!(
            of("bm = 64, bn = 64, bk = 64, mma = scalar, accumulate = atomic, out = f32").kind,
            KernelKind::Atomic
        );
    }

    #[test]
    fn what_a_plan_chooses_by_itself_is_the_same_kernel_when_it_is_asked_for() {
        for (asked, chosen) in [
            (
                "bm = 512, bn = 128, bk = 112, stages = 4, consumers = 2, cluster = 1, swap = off",
                "bm = 512, bn = 128, bk = 112",
            ),
            ("bm = 128, bn = 128, bk = 64, schedule = balanced, arch = sm_90a", "bm = 128, bn = 128, bk = 64"),
            ("bm = 16, bn = 256, bk = 16, swap = on, pack = 8", "bm = 16, bn = 256, bk = 16"),
            ("bm = 64, bn = 64, bk = 64, mma = wmma, shape = m16n16k16", "bm = 64, bn = 64, bk = 64, mma = wmma"),
            (
                "bm = 64, bn = 64, bk = 64, mma = scalar, vector = 1, accumulate = register",
                "bm = 64, bn = 64, bk = 64, mma = scalar",
            ),
        ] {
            assert_eq!(plan(asked).digest(), plan(chosen).digest(), "{asked}");
        }
        let others = [
            "bm = 512, bn = 128, bk = 112",
            "bm = 512, bn = 128, bk = 112, stages = 3",
            "bm = 512, bn = 128, bk = 112, schedule = strided",
            "bm = 512, bn = 128, bk = 112, cluster = 2",
            "bm = 512, bn = 128, bk = 112, dtype = bf16",
            "bm = 512, bn = 128, bk = 112, mma = mma_sync",
            "bm = 512, bn = 128, bk = 112, mma = mma_sync, arch = sm_90a",
            "bm = 64, bn = 64, bk = 64, op = sdd",
            "bm = 64, bn = 64, bk = 64, op = sdd, schedule = balanced",
        ];
        let mut digests: Vec<String> = others.iter().map(|text| plan(text).digest()).collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), others.len());
    }
}
