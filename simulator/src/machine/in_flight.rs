//! Copies in flight.

use super::tensor_map::MapAt;
use crate::check::clock::{UNREACHED, View};
use crate::check::shadow::Stamp;
use crate::program::op::AtomFn;
use crate::program::types::Ty;

/// How a waiting thread knows an operation: its number and the clock components of its reads and its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) id: u64,
    pub(crate) reads: (u32, u32),
    pub(crate) writes: Option<(u32, u32)>,
    /// When the cost model has it done.
    pub(crate) due: u64,
}

/// A place in a block's shared memory.
pub(crate) type Spot = (usize, u32);

/// What a copy moves.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Rows of a tensor box to shared memory. Offsets of im2col mode are behind the coordinates.
    TileLoad {
        map: MapAt,
        coords: Vec<i64>,
        rows: std::ops::Range<u32>,
        to: Spot,
        barrier: Spot,
    },
    TileStore {
        map: MapAt,
        coords: Vec<i64>,
        from: Spot,
        /// Of a reduction.
        f: Option<AtomFn>,
    },
    Load {
        from: u64,
        to: Spot,
        bytes: u32,
        barrier: Spot,
    },
    Store {
        from: Spot,
        to: u64,
        bytes: u32,
        /// Of a reduction, with the type of its elements.
        f: Option<(AtomFn, Ty)>,
    },
    Across {
        from: Spot,
        to: Spot,
        bytes: u32,
        barrier: Spot,
    },
    /// `st.async`, or `red.async` with its function, of one lane.
    Post {
        data: Vec<u8>,
        to: Spot,
        barrier: Spot,
        f: Option<(AtomFn, Ty)>,
    },
    /// `cp.async` of some lanes.
    Lanes(Vec<(LaneCopy, Issued)>),
    /// `cp.async.mbarrier.arrive` of one lane, due when the operations named are done.
    Arrive {
        after: Vec<u64>,
        barrier: Spot,
    },
}

/// One lane's `cp.async`: `real` bytes are read, the rest of `bytes` is zero.
#[derive(Clone, Debug)]
pub(crate) struct LaneCopy {
    pub(crate) lane: u32,
    pub(crate) from: u64,
    pub(crate) to: Spot,
    pub(crate) bytes: u32,
    pub(crate) real: u32,
}

/// What the thread of a [`LaneCopy`] knew when it issued it, and who it is to the checker.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) view: View,
    pub(crate) stamp: Stamp,
}

/// A copy in flight.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) id: u64,
    pub(crate) w: usize,
    pub(crate) pc: u32,
    /// What the issuing thread knew.
    pub(crate) view: View,
    pub(crate) stamp: Stamp,
    pub(crate) write_stamp: Option<Stamp>,
    pub(crate) work: Work,
    /// Between its two halves a store holds the bytes it has read.
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) issued: u64,
    pub(crate) due: u64,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Issued,
    HasRead,
    Done,
}

/// All copies in flight and the clock slots of every asynchronous operation.
#[derive(Debug)]
pub(crate) struct AsyncOps {
    pub(crate) pending: Vec<Pending>,
    /// How many of them are due after others only.
    arrivals: usize,
    /// How far each operation is, by number.
    stages: Vec<Stage>,
    first_slot: u32,
    /// The tick of each slot's last operation.
    ticks: Vec<u32>,
    /// What an issuer has to know of a slot to use it again: that tick, and more than there is while the slot is in use.
    wanted: Vec<u32>,
}

impl AsyncOps {
    pub(crate) fn new(first_slot: u32) -> Self {
        Self { pending: Vec::new(), arrivals: 0, stages: Vec::new(), first_slot, ticks: Vec::new(), wanted: Vec::new() }
    }

    pub(crate) fn add(&mut self, op: Pending) {
        self.arrivals += usize::from(matches!(op.work, Work::Arrive { .. }));
        self.pending.push(op);
    }

    /// Takes an operation out; the last one gets its place.
    pub(crate) fn take(&mut self, index: usize) -> Pending {
        let op = self.pending.swap_remove(index);
        self.arrivals -= usize::from(matches!(op.work, Work::Arrive { .. }));
        op
    }

    /// Whether each operation may take its next step now, whatever the others do.
    pub(crate) fn all_may_run(&self) -> bool {
        self.arrivals == 0
    }

    /// The number of a new operation.
    pub(crate) fn number(&mut self) -> u64 {
        self.stages.push(Stage::Issued);
        self.stages.len() as u64 - 1
    }

    /// The operation has read its source.
    pub(crate) fn has_read(&mut self, id: u64) {
        self.stages[id as usize] = Stage::HasRead;
    }

    /// The operation is done.
    pub(crate) fn finish(&mut self, id: u64) {
        self.stages[id as usize] = Stage::Done;
    }

    /// A clock component for a new operation issued with `view`. A slot is used again only when the issuer knows
    /// that its last operation is done: then knowing the new one rightly implies knowing the old one.
    pub(crate) fn slot(&mut self, view: &View) -> (u32, u32) {
        let i = view.seen.first_reached(self.first_slot, &self.wanted).unwrap_or_else(|| {
            self.ticks.push(0);
            self.wanted.push(0);
            self.ticks.len() - 1
        });
        self.ticks[i] += 1;
        self.wanted[i] = UNREACHED;
        (self.first_slot + i as u32, self.ticks[i])
    }

    pub(crate) fn release(&mut self, slot: u32) {
        let i = slot.wrapping_sub(self.first_slot) as usize;
        if let (Some(wanted), Some(tick)) = (self.wanted.get_mut(i), self.ticks.get(i)) {
            *wanted = *tick;
        }
    }

    /// Is the operation done (or, for `read`, has it read its source)?
    pub(crate) fn done(&self, id: u64, read: bool) -> bool {
        self.stages[id as usize] >= if read { Stage::HasRead } else { Stage::Done }
    }
}
