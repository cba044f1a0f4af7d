//! What of a plan its speed depends on, in numbers that all families share; and whether two plans are one kernel.

use super::scalar::Method;
use super::wgmma::{self, Share};
use super::{Kernel, Plan, View, sdd, swapped, warp};
use crate::spec::{Accumulate, Scale, Schedule};
use crate::{KernelSpec, Op};

/// How a kernel divides its work, and what it keeps in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// What multiplies.
    pub family: Family,
    /// Rows that one CTA computes: of C, or of C^T where B is sparse; of the left factor's for a sampled product.
    pub cta_m: u32,
    /// Columns that one CTA computes.
    pub cta_n: u32,
    /// Warpgroups that multiply, or warps where there are no warpgroups.
    pub consumers: u32,
    /// Rows and columns of a consumer's share of the tile.
    pub share: (u32, u32),
    /// Columns of one matrix instruction: N of WGMMA. With operands swapped these are rows of a block.
    pub instruction_n: u32,
    /// Stages of the ring in shared memory; 1 where there is none.
    pub stages: u32,
    /// Elements of K that a stage holds, all blocks of it together; with operands swapped, of a full stage.
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
    /// A finished tile is stored while the next one is computed.
    pub deferred: bool,
    /// FP8 sums are added to f32 registers every so often.
    pub promoted: bool,
    /// CTAs that an SM holds.
    pub resident: u32,
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Warpgroups, fed by TMA.
    Wgmma,
    /// The same with dense columns as WGMMA's rows, over tiles of several block rows.
    Swapped,
    /// The same, for the stored blocks of a dense product.
    Sampled,
    /// Warps on fragments that `ldmatrix` loads.
    MmaSync,
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

impl Plan {
    /// How the kernel divides its work, and what it keeps in flight.
    pub fn profile(&self) -> Profile {
        match &self.kernel {
            Kernel::Wgmma(plan) => of_wgmma(plan),
            Kernel::Swapped(plan) => of_swapped(plan),
            Kernel::Sampled(plan) => of_sampled(plan),
            Kernel::Warp(plan) => of_warp(plan),
            Kernel::Scalar(plan) => {
                let (family, staging) = match &plan.method {
                    Method::Atomic => (Family::Atomic, None),
                    Method::Register(staging) => (Family::Register, Some(staging)),
                    Method::Vector { staging, .. } => (Family::Vector, Some(staging)),
                };
                let tile = &plan.tile;
                let (steps, step) = staging.map_or((1, plan.spec.bk), |staging| (staging.steps, staging.k_step));
                Profile {
                    family,
                    cta_m: tile.cta_m,
                    cta_n: tile.cta_n,
                    consumers: tile.threads() / 32,
                    share: (tile.thread_m * tile.lanes_m, tile.thread_n * tile.lanes_n),
                    instruction_n: 1,
                    stages: 1,
                    stage_k: step,
                    held_k: steps * step,
                    stages_per_block: (steps, 1),
                    resident: tile.resident(),
                    ..PLAIN
                }
            }
        }
    }

    /// The kernel, whatever it was called in the spec: of two plans for one product, equal digests mean the same
    /// instructions and the same order of work. `stages = 4` and `stages = auto`, where four are chosen, are one kernel.
    pub fn digest(&self) -> String {
        let spec = settled(&self.spec);
        let kernel = match self.kernel.clone() {
            Kernel::Wgmma(plan) => Kernel::Wgmma(wgmma::Plan { spec, ..plan }),
            Kernel::Swapped(plan) => Kernel::Swapped(swapped::Plan { spec, why: String::new(), ..plan }),
            Kernel::Sampled(plan) => Kernel::Sampled(sdd::Plan { spec, ..plan }),
            Kernel::Warp(plan) => Kernel::Warp(warp::Plan { spec, ..plan }),
            Kernel::Scalar(plan) => Kernel::Scalar(super::scalar::Plan { spec, ..plan }),
        };
        // Every number of a plan is in its `Debug` form.
        crate::emit::fingerprint(&format!("{:?}", Self { spec, kernel, arch: self.arch }))
    }
}

/// A spec without the choices whose outcome a plan holds in other fields.
fn settled(spec: &KernelSpec) -> KernelSpec {
    let by_default = match spec.accumulate {
        Some(Accumulate::Register) => true,
        Some(Accumulate::Fast) => spec.scale != Scale::Block,
        Some(Accumulate::Promoted) => spec.scale == Scale::Block,
        Some(Accumulate::Atomic) | None => false,
    };
    KernelSpec {
        accumulate: spec.accumulate.filter(|_| !by_default),
        arch: None,
        warps: None,
        shape: None,
        vector: None,
        stages: None,
        consumers: None,
        cluster: None,
        k_step: None,
        // Sampled products have a third way of dealing tiles, which has no word.
        schedule: spec.schedule.or((spec.op != Op::Sdd).then_some(Schedule::Balanced)),
        swizzle: None,
        swap: None,
        pack: None,
        ..*spec
    }
}

/// What most families do not have.
const PLAIN: Profile = Profile {
    family: Family::Register,
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
    deferred: false,
    promoted: false,
    resident: 1,
};

fn of_wgmma(plan: &wgmma::Plan) -> Profile {
    let (t, k) = (&plan.tiling, &plan.kloop);
    Profile {
        family: Family::Wgmma,
        cta_m: t.cta_m,
        cta_n: t.cta_n,
        consumers: t.roles.consumers,
        share: (t.wg_m, t.wg_n),
        instruction_n: t.wg_n,
        stages: plan.memory.stages,
        stage_k: k.k_step * k.slots,
        held_k: k.k_step * k.steps,
        stages_per_block: (k.steps, k.slots),
        multicast: match t.share {
            Share::Nothing => Multicast::Nothing,
            Share::A => Multicast::Sparse,
            Share::B => Multicast::Dense,
        },
        cluster: t.cluster,
        copied_rows: (plan.a.span * plan.a.fold, plan.b.span * plan.b.fold),
        deferred: plan.epilogue.deferred,
        promoted: plan.precision.promoted,
        ..PLAIN
    }
}

fn of_swapped(plan: &swapped::Plan) -> Profile {
    let (t, m) = (&plan.tile, &plan.memory);
    Profile {
        family: Family::Swapped,
        cta_m: t.tile_rows(),
        cta_n: t.cta_n,
        consumers: t.roles.consumers,
        share: (t.tile_rows(), t.groups * swapped::GROUP),
        instruction_n: t.rows,
        stages: m.stages,
        stage_k: m.slabs * plan.chunk.depth,
        held_k: plan.chunk.held * plan.chunk.count,
        stages_per_block: (plan.chunk.count, 1),
        pack: t.pack,
        copied_rows: (plan.sparse.span, plan.dense.span),
        deferred: m.buffers > 1,
        ..PLAIN
    }
}

fn of_sampled(plan: &sdd::Plan) -> Profile {
    let t = &plan.tiling;
    Profile {
        family: Family::Sampled,
        cta_m: t.cta_m,
        cta_n: t.cta_n(),
        consumers: t.roles.consumers,
        share: (sdd::WG_M, t.wg_n()),
        instruction_n: t.wg_n(),
        stages: plan.memory.stages,
        stage_k: plan.k_step(),
        held_k: plan.k_step(),
        pack: t.pack,
        ..PLAIN
    }
}

fn of_warp(plan: &warp::Plan) -> Profile {
    let (t, k) = (&plan.tiling, &plan.kloop);
    let view = View::new(&plan.spec);
    Profile {
        family: match plan.opaque() {
            true => Family::Wmma { asynchronous: plan.arch.cp_async },
            false => Family::MmaSync,
        },
        cta_m: t.cta_m,
        cta_n: t.cta_n,
        consumers: t.warps.0 * t.warps.1,
        share: (t.warp_m, t.warp_n),
        instruction_n: t.fragment.1,
        stages: plan.memory.stages,
        stage_k: k.k_step * k.slots,
        held_k: (k.k_step * k.steps).max(view.depth),
        stages_per_block: (k.steps, k.slots),
        resident: plan.memory.resident,
        ..PLAIN
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::new(&text.parse().unwrap()).unwrap()
    }

    #[test]
    fn every_family_tells_what_its_table_tells() {
        let of = |text: &str| plan(text).profile();
        let flagship = of("bm = 512, bn = 128, bk = 112");
        assert_eq!((flagship.family, flagship.cta_m, flagship.cta_n), (Family::Wgmma, 256, 128));
        assert_eq!((flagship.consumers, flagship.share, flagship.instruction_n), (2, (128, 128), 128));
        assert_eq!((flagship.stages, flagship.stage_k, flagship.stages_per_block), (4, 64, (2, 1)));
        assert_eq!((flagship.multicast, flagship.deferred, flagship.promoted), (Multicast::Nothing, true, false));
        assert_eq!(of("bm = 512, bn = 128, bk = 112, cluster = 2").multicast, Multicast::Dense);
        assert_eq!(of("bm = 128, bn = 256, bk = 128, cluster = 2").multicast, Multicast::Sparse);
        assert!(!of("bm = 128, bn = 256, bk = 64, beta = on").deferred);
        assert!(of("bm = 128, bn = 256, bk = 128, dtype = e4m3, accumulate = promoted").promoted);
        assert_eq!(of("bm = 128, bn = 256, bk = 32").stages_per_block, (1, 2));

        let swapped = of("bm = 16, bn = 256, bk = 16, pack = 4");
        assert_eq!((swapped.family, swapped.pack, swapped.instruction_n), (Family::Swapped, 4, 16));
        assert_eq!((swapped.cta_m, swapped.cta_n, swapped.held_k), (64, 256, 16));
        assert_eq!(of("bm = 128, bn = 256, bk = 128, op = sdd").family, Family::Sampled);

        let warps = of("bm = 128, bn = 128, bk = 64, mma = mma_sync, warps = (2, 4), stages = 3");
        assert_eq!((warps.family, warps.consumers, warps.share, warps.stages), (Family::MmaSync, 8, (64, 32), 3));
        assert_eq!(of("bm = 64, bn = 64, bk = 64, mma = wmma").family, Family::Wmma { asynchronous: true });
        assert_eq!(
            of("bm = 64, bn = 64, bk = 64, mma = wmma, arch = sm_70").family,
            Family::Wmma { asynchronous: false }
        );
        assert_eq!(of("bm = 64, bn = 64, bk = 64, mma = scalar").family, Family::Register);
        assert_eq!(of("bm = 64, bn = 64, bk = 64, mma = scalar, vector = 8").family, Family::Vector);
        assert_eq!(
            of("bm = 64, bn = 64, bk = 64, mma = scalar, accumulate = atomic, out = f32").family,
            Family::Atomic
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
