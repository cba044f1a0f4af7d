//! A warp: registers, and its threads in fragments that run together.

use std::collections::{HashMap, VecDeque};

use super::in_flight::{Spot, Ticket};
use super::released::{Fenced, Found};
use crate::check::clock::{View, WarpViews};
use crate::program::Program;

/// Counts what the threads of the cluster have done that others could see, and what all clusters have changed in memory.
pub(crate) type World = (u64, u64);

/// What a warp has last done at mbarriers, and where.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AtBarriers {
    pub(crate) waited: Option<(Spot, u32)>,
    pub(crate) arrived: Option<(Spot, u32)>,
}

/// A strong read that may be a poll: when it was last executed, and the state of the warp if the world has not changed
/// since.
pub(crate) struct Poll {
    pub(crate) world: World,
    pub(crate) state: Option<PollState>,
}

/// All that decides what a warp does next, while the world stays as it is.
#[derive(PartialEq, Eq)]
pub(crate) struct PollState {
    pub(crate) at: Vec<(u32, u32)>,
    pub(crate) regs: Vec<[u64; 32]>,
    pub(crate) preds: Vec<u32>,
}

/// What a fragment waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wait {
    /// The other threads named (or all live threads of the warp) to reach the same instruction.
    Converge {
        members: Option<u32>,
    },
    /// An mbarrier's phase to complete.
    Mbar {
        cta: usize,
        offset: u32,
        phase: u64,
    },
    /// Anything to happen: a poll that has failed, in a state of the world.
    Poll {
        world: World,
    },
    NamedBarrier {
        id: u32,
    },
    Cluster {
        generation: u64,
    },
    Bulk {
        pending: u32,
        read: bool,
    },
    CpAsync {
        pending: u32,
        all: bool,
    },
    Registers {
        need: u32,
    },
    Wgmma {
        target: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) mask: u32,
    pub(crate) pc: u32,
    pub(crate) wait: Option<Wait>,
}

/// A thread's groups of asynchronous copies (bulk, or `cp.async`).
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyGroups {
    /// How many `cp.async` the thread has issued.
    pub(crate) issued: u32,
    pub(crate) open: Vec<Ticket>,
    pub(crate) groups: VecDeque<Vec<Ticket>>,
}

pub(crate) struct Warp {
    /// Block rank in the cluster and warp in the block.
    pub(crate) cta: usize,
    pub(crate) index: u32,
    /// Threads that exist and have not exited.
    pub(crate) live: u32,
    pub(crate) fragments: Vec<Fragment>,
    pub(crate) regs: Vec<[u64; 32]>,
    pub(crate) preds: Vec<u32>,
    /// The lanes in which a register, or a predicate, has been written.
    pub(crate) defined: Vec<u32>,
    pub(crate) defined_preds: Vec<u32>,
    pub(crate) views: WarpViews,
    pub(crate) max_registers: u32,
    /// A setmaxnreg has fixed `max_registers`.
    pub(crate) budgeted: bool,
    pub(crate) at_barriers: AtBarriers,
    /// The last fences between threads, of each scope.
    pub(crate) fences: Vec<Fenced>,
    /// Initialisations of mbarriers that lanes have released, by clock component.
    pub(crate) announced: Vec<(u32, (u32, u32))>,
    /// Strong reads that may be polls, by instruction.
    pub(crate) polls: HashMap<u32, Poll>,
    /// What other threads of the cluster have released where lanes have read since, by relaxed reads.
    pub(crate) found: Vec<Found>,
    /// Releases of other clusters that lanes have read since, by clock component.
    pub(crate) unfenced: Vec<(u32, u32)>,
    /// The setmaxnreg that it has executed.
    pub(crate) budgets: Vec<u32>,
    /// Approximate time, in cycles.
    pub(crate) now: u64,
    /// Cluster-barrier generation + 1 at which each lane has arrived without waiting yet.
    pub(crate) cluster_arrived: [u64; 32],
    pub(crate) bulk: Vec<CopyGroups>,
    pub(crate) copies: Vec<CopyGroups>,
    pub(crate) wg: WarpWgmma,
}

/// The tensor core's side of a warp.
#[derive(Default)]
pub(crate) struct WarpWgmma {
    /// Operations issued, and the end of each committed group.
    pub(crate) issued: u64,
    pub(crate) groups: VecDeque<u64>,
    /// For each tracked register: when generic code last touched it, against the last `wgmma.fence`.
    pub(crate) touched: Vec<(u64, u32)>,
    pub(crate) fence: u64,
    pub(crate) clock: u64,
    /// For each register: 1 + the operation in flight that writes it, and likewise reads it.
    pub(crate) writing: Vec<u64>,
    pub(crate) reading: Vec<u64>,
    /// Operations below this number were waited for.
    pub(crate) waited: u64,
}

impl Warp {
    pub(crate) fn new(p: &Program, cta: usize, index: u32, unit: u32, live: u32, registers: u32) -> Self {
        Self {
            cta,
            index,
            live,
            fragments: vec![Fragment { mask: live, pc: 0, wait: None }],
            regs: vec![[0; 32]; p.registers],
            preds: vec![0; p.predicates],
            defined: vec![0; p.registers],
            defined_preds: vec![0; p.predicates],
            views: WarpViews::new(unit),
            max_registers: registers,
            budgeted: false,
            budgets: Vec::new(),
            at_barriers: AtBarriers::default(),
            fences: Vec::new(),
            announced: Vec::new(),
            polls: HashMap::new(),
            found: Vec::new(),
            unfenced: Vec::new(),
            now: 0,
            cluster_arrived: [0; 32],
            bulk: vec![CopyGroups::default(); 32],
            copies: vec![CopyGroups::default(); 32],
            wg: WarpWgmma {
                touched: vec![(0, 0); p.registers],
                writing: vec![0; p.registers],
                reading: vec![0; p.registers],
                clock: 1,
                ..WarpWgmma::default()
            },
        }
    }

    pub(crate) fn set_pred(&mut self, p: u32, mask: u32, value: u32) {
        let slot = &mut self.preds[p as usize];
        *slot = (*slot & !mask) | (value & mask);
    }
}

/// A named barrier of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedBarrier {
    pub(crate) arrived: u32,
    /// Threads expected, from the first arrival of this round; `None`: all of the block.
    pub(crate) expected: Option<u32>,
    pub(crate) view: View,
    pub(crate) last_pc: u32,
    /// Of `bar.red`: threads whose predicate holds, and whose does not.
    pub(crate) votes: [u32; 2],
}
