//! Copies in flight.

use std::collections::HashMap;

use super::tensor_map::MapAt;
use crate::check::clock::View;
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

/// All copies in flight and the clock slots of every asynchronous operation.
#[derive(Debug)]
pub(crate) struct AsyncOps {
    pub(crate) pending: Vec<Pending>,
    /// Operations in flight, by number: has it read its source?
    pub(crate) alive: HashMap<u64, bool>,
    next: u64,
    first_slot: u32,
    slots: Vec<(u32, bool)>,
}

impl AsyncOps {
    pub(crate) fn new(first_slot: u32) -> Self {
        Self { pending: Vec::new(), alive: HashMap::new(), next: 1, first_slot, slots: Vec::new() }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// A clock component for a new operation issued with `view`. A slot is used again only when the issuer knows
    /// that its last operation is done: then knowing the new one rightly implies knowing the old one.
    pub(crate) fn slot(&mut self, view: &View) -> (u32, u32) {
        let first = self.first_slot;
        let free = self
            .slots
            .iter()
            .enumerate()
            .position(|(i, (tick, busy))| !busy && view.seen.get(first + i as u32) >= *tick);
        let i = free.unwrap_or_else(|| {
            self.slots.push((0, false));
            self.slots.len() - 1
        });
        self.slots[i] = (self.slots[i].0 + 1, true);
        (first + i as u32, self.slots[i].0)
    }

    pub(crate) fn release(&mut self, slot: u32) {
        if let Some(s) = self.slots.get_mut(slot.wrapping_sub(self.first_slot) as usize) {
            s.1 = false;
        }
    }

    /// Is the operation done (or, for `read`, has it read its source)?
    pub(crate) fn done(&self, id: u64, read: bool) -> bool {
        self.alive.get(&id).is_none_or(|has_read| read && *has_read)
    }
}
