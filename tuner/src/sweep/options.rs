//! Limits, rounds, shards.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::backend::Rounds;
use crate::{Record, Verdict};

/// How a sweep is done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Options {
    /// The quick trial that every candidate is given first. Stored as `look`, as in databases from before.
    #[serde(rename = "look")]
    pub quick_trial: Rounds,
    /// How candidates are timed that the quick trial does not end.
    pub rounds: Rounds,
    /// A candidate that is slower than the best times this is not timed further: [`Verdict::Slow`](crate::Verdict::Slow).
    /// Stored as `hopeless`, as in databases from before.
    #[serde(rename = "hopeless")]
    pub slow_factor: f64,
    /// Candidates that are timed together.
    pub group: usize,
    /// With successive halving all candidates are given the quick trial alone, and so many of the fastest are timed
    /// together at the end, the better half of them twice as long, and so on.
    pub halving: Option<usize>,
    /// How these are timed: all of them `least` rounds, the last ones until `most` or their interval is tight. Stored
    /// as `finals`, as in databases from before.
    #[serde(rename = "finals")]
    pub final_rung: Rounds,
    /// What a kernel is given to come back: a [hang](Verdict::Hang) in less time is tried again. Not stored.
    #[serde(skip)]
    pub watchdog: Option<Duration>,
    /// Points with such a record are measured again.
    #[serde(skip)]
    pub retry: Vec<Verdict>,
    /// Points of each workload, those known from before included.
    pub limit: Option<usize>,
    /// Wall time of the whole sweep.
    pub budget: Option<Duration>,
    /// The part of the points that is measured here.
    pub shard: Option<Shard>,
    /// Points that are compiled, or being compiled, ahead of the backends: enough for them never to wait, and few enough for a
    /// search that learns to have seen most of what was measured.
    pub ahead: usize,
    /// Threads that compile, at most: no more than there are points ahead of all backends.
    pub compilers: usize,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let rounds = Rounds { warmup_ms: 100, least: 12, most: 200, relative_ci: 0.005, limit: Duration::from_secs(2) };
        Self {
            // A GPU that has idled runs faster than it can for long: a quick trial, too, begins under load.
            quick_trial: Rounds { warmup_ms: 150, least: 8, most: 8, relative_ci: 0.0, limit: Duration::from_secs(1) },
            rounds,
            slow_factor: 1.5,
            group: 4,
            halving: None,
            final_rung: Rounds {
                warmup_ms: 500,
                least: 50,
                most: 400,
                relative_ci: 0.0025,
                limit: Duration::from_secs(10),
            },
            watchdog: None,
            retry: Vec::new(),
            limit: None,
            budget: None,
            shard: None,
            ahead: Self::AHEAD,
            compilers: cores,
        }
    }
}

impl Options {
    /// Points that are compiled ahead of one backend: two groups.
    pub const AHEAD: usize = 8;

    /// Whether what became of a point is measured again: it was asked for, or it hung in less time than it is given now.
    pub(super) fn tries_again(&self, record: &Record) -> bool {
        let given_more = match (record.verdict, record.watchdog_s, self.watchdog) {
            (Verdict::Hang, Some(before), Some(now)) => now.as_secs_f64() > before,
            _ => false,
        };
        given_more || self.retry.contains(&record.verdict)
    }

    /// Whether a subject belongs to the shard.
    pub fn has(&self, subject: &str) -> bool {
        self.shard.is_none_or(|shard| shard.has(subject))
    }
}

/// One of several parts of the points, by the digest of their specs: `2/4` is the second of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Which, from 1.
    pub index: u64,
    /// Of how many.
    pub of: u64,
}

impl Shard {
    /// Whether the subject belongs to it: the same on every machine.
    pub fn has(&self, subject: &str) -> bool {
        let digest = *blake3::hash(subject.as_bytes()).as_bytes();
        let (words, _) = digest.as_chunks::<8>();
        u64::from_le_bytes(words[0]) % self.of == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err("write 1/4 for the first of four parts, up to 4/4 for the last".to_owned()),
        }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}
