//! Orders in which threads, asynchronous work and clusters may run.

/// How threads and asynchronous work are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Asynchronous work is done the moment it is issued; warps take turns.
    Early,
    /// Asynchronous work is done only when no thread can go on without it, the youngest first.
    Late,
    /// Everything in an order drawn from the seed; copies arrive in parts. Even seeds are fair to all, odd seeds
    /// let some blocks and warps run far ahead.
    #[default]
    Scrambled,
    /// By the cost model: the earliest first. The one to trace.
    Timed,
}

/// SplitMix64: small, and the same everywhere for ever, so that a seed replays a run.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// 0 .. n (0 for n = 0)
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }
}

/// What a cluster did in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Runs,
    /// All of its threads wait, and some poll memory that another cluster may change.
    Polls,
    /// It has ended, or cannot go on.
    Over,
}

/// Which of the clusters that run together is next.
pub(crate) struct ClusterSchedule {
    schedule: Schedule,
    random: Random,
    /// The clusters that are not over, and how often memory had been changed when they could only poll.
    running: Vec<(usize, Option<u64>)>,
    last: usize,
}

/// Steps of a cluster's turn.
const TURN: u64 = 64;

impl ClusterSchedule {
    pub(crate) fn new(schedule: Schedule, seed: u64, clusters: usize) -> Self {
        let random = Random::new(seed ^ 0x5bd1_e995);
        Self { schedule, random, running: (0..clusters).map(|c| (c, None)).collect(), last: 0 }
    }

    /// The cluster to run, and for how many steps, when memory has been changed so often; none when all are over, or poll
    /// what no cluster changes any more.
    pub(crate) fn next(&mut self, changes: u64) -> Option<(usize, u64)> {
        let ready: Vec<usize> =
            self.running.iter().filter(|(_, polls)| *polls != Some(changes)).map(|(cluster, _)| *cluster).collect();
        let steps = match self.schedule {
            Schedule::Scrambled => 1 + self.random.below(2 * TURN),
            _ => TURN,
        };
        let cluster = match self.schedule {
            Schedule::Scrambled => *ready.get(self.random.below(ready.len() as u64) as usize)?,
            // The last cluster runs ahead, until it waits for another.
            Schedule::Late => *ready.last()?,
            Schedule::Early | Schedule::Timed => *ready.iter().find(|c| **c > self.last).or(ready.first())?,
        };
        self.last = cluster;
        Some((cluster, steps))
    }

    /// A cluster took its turn.
    pub(crate) fn took(&mut self, cluster: usize, progress: Progress, changes: u64) {
        match progress {
            Progress::Over => self.running.retain(|(c, _)| *c != cluster),
            Progress::Runs | Progress::Polls => {
                let polls = (progress == Progress::Polls).then_some(changes);
                self.running.iter_mut().filter(|(c, _)| *c == cluster).for_each(|(_, at)| *at = polls);
            }
        }
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = usize> + '_ {
        self.running.iter().map(|(cluster, _)| *cluster)
    }
}

/// What can happen next: warps, copies, and warpgroups whose tensor core has work. The lists are made anew at every step.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    pub(crate) ready: Vec<usize>,
    pub(crate) copies: Vec<usize>,
    /// The copies are all there are, in order: only their number changes.
    pub(crate) all_copies: bool,
    pub(crate) groups: Vec<usize>,
}
