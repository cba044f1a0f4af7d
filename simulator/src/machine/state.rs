//! The state of one running cluster, and its operands and clocks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::cta::Cta;
use super::in_flight::{AsyncOps, Spot};
use super::launch::{Launch, Options, product};
use super::local::Local;
use super::overlay::Overlay;
use super::released::{Exchange, Released};
use super::tensor_map::TensorMapDesc;
use super::warp::{Wait, Warp};
use super::warpgroup::Warpgroup;
use crate::address;
use crate::check::Finding;
use crate::check::clock::{View, lanes};
use crate::check::shadow::{Proxy, Stamp, States};
use crate::program::Program;
use crate::program::op::{PredSrc, Reg, Scope, Src};
use crate::program::types::{Special, Ty, mask, sign_extend};
use crate::schedule::{Choices, Random};
use crate::trace::{Cost, Recorder};

/// The run of this cluster is over: the reason has been reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop;

pub(crate) type Exec<T> = Result<T, Stop>;

/// What follows an instruction.
pub(crate) enum Flow {
    Next,
    /// The fragment waits and will execute the same instruction again.
    Retry(Wait),
    /// The fragment waits; whoever wakes it moves it on.
    Suspend(Wait),
    /// The fragment's control flow was changed already.
    Done,
}

/// One cluster while it runs.
pub(crate) struct Machine<'a> {
    pub(crate) program: &'a Program,
    pub(crate) launch: &'a Launch,
    pub(crate) options: &'a Options,
    pub(crate) params: &'a [u8],
    /// The tensor maps among the parameters, by their places.
    pub(crate) param_maps: BTreeMap<u32, Arc<TensorMapDesc>>,
    /// Number of the cluster in the grid.
    pub(crate) cluster: u32,
    pub(crate) ctas: Vec<Cta>,
    pub(crate) warps: Vec<Warp>,
    pub(crate) warpgroups: Vec<Warpgroup>,
    pub(crate) global: Overlay<'a>,
    pub(crate) states: States,
    pub(crate) asyncs: AsyncOps,
    pub(crate) random: Random,
    /// Per warp, for schedules that favour some; empty until drawn.
    pub(crate) priorities: Vec<u64>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) steps: u64,
    /// What could happen at the last step.
    pub(crate) choices: Choices,
    /// The warp that ran last.
    pub(crate) last: usize,
    /// By instruction: has a thread executed it?
    pub(crate) executed: Vec<bool>,
    /// Counts everything that could let a failed poll succeed.
    pub(crate) epoch: u64,
    pub(crate) cluster_barrier: ClusterBarrier,
    /// What the last completed named barrier passes on.
    pub(crate) last_named: View,
    /// The votes of the last completed named barrier.
    pub(crate) last_votes: [u32; 2],
    /// Per warp: 1 + the epoch of its last failed poll.
    pub(crate) polled: Vec<u64>,
    /// What strong accesses have published, place by place.
    pub(crate) strong: HashMap<(u64, u64), Vec<Released>>,
    /// What clusters pass each other through global memory, while they run together.
    pub(crate) exchange: Exchange,
    /// The releases of other clusters that threads of this one have acquired: who made it, what it published, and the
    /// clock component that says who knows of it.
    pub(crate) acquired: Vec<(u32, View, u32)>,
    /// The mbarrier that a copy to shared memory has last completed, by instruction.
    pub(crate) copy_barriers: HashMap<u32, Spot>,
    /// Tensor maps in global memory that a block has fenced: block and address.
    pub(crate) fenced_maps: HashSet<(usize, u64)>,
    /// Tensor maps in global memory that a block has written: the block, and the scope of the release since, if any.
    pub(crate) written_maps: HashMap<u64, (usize, Option<Scope>)>,
    /// The local memory of each thread, once it is used.
    pub(crate) locals: Vec<Option<Local>>,
    /// Tensor maps that the kernel has made, as copies have found them.
    pub(crate) made_maps: Vec<Arc<TensorMapDesc>>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) cost: Cost,
}

/// `barrier.cluster`
#[derive(Default)]
pub(crate) struct ClusterBarrier {
    pub(crate) arrived: u32,
    pub(crate) generation: u64,
    pub(crate) gathering: View,
    pub(crate) completed: [View; 2],
}

impl<'a> Machine<'a> {
    pub(crate) fn new(
        program: &'a Program,
        launch: &'a Launch,
        options: &'a Options,
        params: &'a [u8],
        global: Overlay<'a>,
        cluster: u32,
    ) -> Self {
        let blocks = product(launch.cluster) as u32;
        let threads = launch.threads();
        let warps_per_cta = threads.div_ceil(32);
        let clusters: Vec<u32> = (0..3).map(|i| launch.grid[i] / launch.cluster[i]).collect();
        let at = [cluster % clusters[0], cluster / clusters[0] % clusters[1], cluster / (clusters[0] * clusters[1])];
        let bytes = (program.static_shared + launch.shared_bytes) as usize;
        let registers = launch.registers_at_entry(program);
        let mut ctas = Vec::new();
        let mut warps = Vec::new();
        for rank in 0..blocks {
            let inside = [
                rank % launch.cluster[0],
                rank / launch.cluster[0] % launch.cluster[1],
                rank / (launch.cluster[0] * launch.cluster[1]),
            ];
            let ctaid = [0, 1, 2].map(|i| at[i] * launch.cluster[i] + inside[i]);
            ctas.push(Cta::new(bytes, options.races, warps_per_cta, ctaid));
            for w in 0..warps_per_cta {
                let count = (threads - w * 32).min(32);
                let live = if count == 32 { u32::MAX } else { (1 << count) - 1 };
                warps.push(Warp::new(program, rank as usize, w, warps.len() as u32, live, registers));
            }
        }
        let warpgroups = (0..blocks * warps_per_cta.div_ceil(4)).map(|_| Warpgroup::default()).collect();
        Self {
            program,
            launch,
            options,
            params,
            param_maps: launch.parameter_maps(program),
            cluster,
            ctas,
            warpgroups,
            global,
            states: States::new(warps_per_cta as u16),
            // After the threads' two components each comes that of griddepcontrol.wait.
            asyncs: AsyncOps::new(warps.len() as u32 * 64 + 1),
            random: Random::new(options.seed ^ u64::from(cluster).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            priorities: Vec::new(),
            findings: Vec::new(),
            steps: 0,
            choices: Choices::default(),
            last: 0,
            executed: vec![false; program.code.len()],
            epoch: 0,
            cluster_barrier: ClusterBarrier::default(),
            last_named: View::default(),
            last_votes: [0; 2],
            polled: vec![0; warps.len()],
            strong: HashMap::new(),
            exchange: Exchange::default(),
            acquired: Vec::new(),
            copy_barriers: HashMap::new(),
            fenced_maps: HashSet::new(),
            written_maps: HashMap::new(),
            locals: vec![None; warps.len() * 32],
            made_maps: Vec::new(),
            recorder: options.trace.then(|| Recorder::new(cluster)),
            cost: Cost::default(),
            warps,
        }
    }

    pub(crate) fn warps_per_cta(&self) -> u32 {
        self.launch.threads().div_ceil(32)
    }

    /// Number of the warpgroup a warp belongs to.
    pub(crate) fn warpgroup_of(&self, w: usize) -> usize {
        let warp = &self.warps[w];
        warp.cta * self.warps_per_cta().div_ceil(4) as usize + warp.index as usize / 4
    }

    // --- operands ---

    #[inline]
    pub(crate) fn value(&self, w: usize, lane: u32, s: Src) -> u64 {
        match s {
            Src::Reg(r) => self.warps[w].regs[r as usize][lane as usize],
            Src::Imm(v) => v,
            Src::Shared(a) => u64::from(address::with_rank(a, self.warps[w].cta as u32)),
            Src::Global(at) => self.global.base.module_address() + u64::from(at),
            Src::Special(sp) => self.special(w, lane, sp),
        }
    }

    #[inline]
    pub(crate) fn values(&self, w: usize, s: Src) -> [u64; 32] {
        match s {
            Src::Reg(r) => self.warps[w].regs[r as usize],
            Src::Imm(v) => [v; 32],
            Src::Shared(_) | Src::Global(_) => [self.value(w, 0, s); 32],
            Src::Special(sp) => std::array::from_fn(|l| self.special(w, l as u32, sp)),
        }
    }

    /// The lanes where a predicate holds.
    #[inline]
    pub(crate) fn predicate(&self, w: usize, p: PredSrc) -> u32 {
        let v = p.reg.map_or(u32::MAX, |r| self.warps[w].preds[r as usize]);
        if p.negated { !v } else { v }
    }

    #[inline]
    pub(crate) fn set(&mut self, w: usize, mask: u32, d: Reg, values: &[u64; 32]) {
        let reg = &mut self.warps[w].regs[d as usize];
        if mask == u32::MAX {
            *reg = *values;
        } else {
            for l in lanes(mask) {
                reg[l as usize] = values[l as usize];
            }
        }
    }

    fn special(&self, w: usize, lane: u32, s: Special) -> u64 {
        let warp = &self.warps[w];
        let l = self.launch;
        let rank = warp.cta as u32;
        let thread = warp.index * 32 + lane;
        let unfold = |v: u32, dims: [u32; 3], d: u8| match d {
            0 => v % dims[0],
            1 => v / dims[0] % dims[1],
            _ => v / (dims[0] * dims[1]),
        };
        let v = match s {
            Special::Tid(d) => unfold(thread, l.block, d),
            Special::Ntid(d) => l.block[d as usize],
            Special::Ctaid(d) => self.ctas[warp.cta].ctaid[d as usize],
            Special::Nctaid(d) => l.grid[d as usize],
            Special::Clusterid(d) => self.ctas[warp.cta].ctaid[d as usize] / l.cluster[d as usize],
            Special::Nclusterid(d) => l.grid[d as usize] / l.cluster[d as usize],
            Special::ClusterCtaid(d) => unfold(rank, l.cluster, d),
            Special::ClusterNctaid(d) => l.cluster[d as usize],
            Special::ClusterCtarank => rank,
            Special::ClusterNctarank => product(l.cluster) as u32,
            Special::IsExplicitCluster => u32::from(product(l.cluster) > 1),
            Special::Laneid => lane,
            Special::Warpid => warp.index,
            Special::Nwarpid => self.warps_per_cta(),
            Special::Smid => self.cluster.wrapping_mul(product(l.cluster) as u32).wrapping_add(rank) % 132,
            Special::Nsmid => 132,
            Special::Gridid => return 1,
            Special::LanemaskEq => 1 << lane,
            Special::LanemaskLt => (1 << lane) - 1,
            Special::LanemaskLe => ((1u64 << (lane + 1)) - 1) as u32,
            Special::LanemaskGt => !((1u64 << (lane + 1)) - 1) as u32,
            Special::LanemaskGe => !((1u32 << lane) - 1),
            Special::Clock | Special::GlobaltimerLo => warp.now as u32,
            Special::ClockHi | Special::GlobaltimerHi => (warp.now >> 32) as u32,
            Special::CurrentGraphExec => return 0,
            Special::Clock64 | Special::Globaltimer => return warp.now,
            Special::DynamicSmem => l.shared_bytes,
            Special::TotalSmem => l.shared_bytes + self.program.static_shared,
        };
        u64::from(v)
    }

    // --- clocks ---

    /// The stamp of a generic access made now.
    pub(crate) fn stamp(&self, w: usize, mask: u32, pc: u32, proxy: Proxy) -> Stamp {
        Stamp { base: w as u32 * 32, mask, tick: self.warps[w].views.tick, pc, warp: w as u16, proxy, each: false }
    }

    /// The clock component that counts the `cp.async` of a warp's lane 0; those of the others follow.
    pub(crate) fn copy_component(&self, w: usize) -> u32 {
        (self.warps.len() + w) as u32 * 32
    }

    /// What `mask` of a warp publishes when it releases.
    pub(crate) fn publish(&mut self, w: usize, mask: u32) -> View {
        if self.options.races { self.warps[w].views.publish(mask) } else { View::default() }
    }

    pub(crate) fn acquire(&mut self, w: usize, mask: u32, view: &View) {
        if self.options.races {
            self.warps[w].views.acquire(mask, view);
        }
    }

    /// Threads of a warp order what they did among themselves.
    pub(crate) fn order_warp(&mut self, w: usize, mask: u32) {
        let view = self.publish(w, mask);
        self.acquire(w, mask, &view);
    }

    pub(crate) fn view_of(&self, w: usize, lane: u32) -> View {
        self.warps[w].views.view(lane).clone()
    }

    /// Extends or truncates to a register's width.
    #[inline]
    pub(crate) fn extend(v: u64, ty: Ty, width: u32) -> u64 {
        if ty.signed() { sign_extend(v, ty.bits()) as u64 & mask(width) } else { v & ty.mask() }
    }
}
