//! The mbarrier object.

use crate::check::clock::View;
use crate::check::shadow::Stamp;
use crate::program::op::PENDING_AT;

#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals each phase expects, and how many are missing in this one.
    pub(crate) count: u32,
    pub(crate) pending: i64,
    /// Bytes still expected; negative when they came before they were announced.
    pub(crate) tx: i64,
    /// Phases completed.
    pub(crate) phase: u64,
    /// Published by this phase's arrivals so far, and by the last complete phase: of the block's own threads and the
    /// copies that complete here, and of other blocks.
    pub(crate) gathering: View,
    pub(crate) gathering_remote: View,
    pub(crate) completed: View,
    pub(crate) completed_remote: View,
    pub(crate) init: Stamp,
    /// The initialising thread has executed `fence.mbarrier_init` or `fence.proxy.async` since.
    pub(crate) fenced: bool,
    /// Whoever knows this clock component knows the initialisation: `fence.mbarrier_init` releases it, and nothing else.
    pub(crate) announced: Option<(u32, u32)>,
    /// Lines of the last arrival and announcement, for reports.
    pub(crate) last_arrive: Option<u32>,
    pub(crate) time: u64,
    pub(crate) underflow_told: bool,
}

/// What an update led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pending,
    Completed,
    /// More arrivals than the phase has.
    Overrun,
    /// All arrivals are there and more bytes came than were announced.
    Underflow,
}

/// The range of the transaction count.
pub(crate) const TX_LIMIT: i64 = (1 << 20) - 1;
/// The most arrivals a phase can expect.
pub(crate) const COUNT_LIMIT: u64 = (1 << 20) - 1;

impl Mbarrier {
    /// What an arrival returns: the phase, and the arrivals that were pending.
    pub(crate) fn state(&self) -> u64 {
        self.phase | self.pending.max(0).cast_unsigned() << PENDING_AT
    }

    pub(crate) fn new(count: u32, init: Stamp) -> Self {
        Self {
            count,
            pending: i64::from(count),
            tx: 0,
            phase: 0,
            gathering: View::default(),
            gathering_remote: View::default(),
            completed: View::default(),
            completed_remote: View::default(),
            init,
            fenced: false,
            announced: None,
            last_arrive: None,
            time: 0,
            underflow_told: false,
        }
    }

    /// An arrival publishes what its thread knows.
    pub(crate) fn gather(&mut self, view: &View, remote: bool) {
        if remote { self.gathering_remote.join(view) } else { self.gathering.join(view) }
    }

    pub(crate) fn arrive(&mut self, n: u32) -> Outcome {
        self.pending -= i64::from(n);
        if self.pending < 0 {
            return Outcome::Overrun;
        }
        self.settle()
    }

    /// Adds to the bytes expected (negative: bytes that arrived).
    pub(crate) fn transact(&mut self, bytes: i64) -> Outcome {
        self.tx += bytes;
        self.settle()
    }

    fn settle(&mut self) -> Outcome {
        if self.pending > 0 || self.tx > 0 {
            return Outcome::Pending;
        }
        if self.tx < 0 {
            return Outcome::Underflow;
        }
        self.phase += 1;
        self.pending = i64::from(self.count);
        self.completed = std::mem::take(&mut self.gathering);
        self.completed_remote = std::mem::take(&mut self.gathering_remote);
        Outcome::Completed
    }

    /// Has the phase with this parity completed (the phase before the current one, if the parities match)?
    pub(crate) fn parity_done(&self, parity: u32) -> bool {
        (self.phase & 1) as u32 != parity & 1
    }
}
