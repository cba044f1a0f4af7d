//! Bytes of global memory that several clusters touch, one of them writing and one weakly: whether what the clusters have
//! released and acquired orders the accesses. Only a second run of the same order watches them, which knows where they are.

use std::collections::HashMap;
use std::ops::Range;

use crate::check::shadow::Stamp;

/// The bytes, and who has touched them.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// In order, none touching another.
    ranges: Vec<Range<u64>>,
    pub(super) words: HashMap<u64, Word>,
}

/// The last write of a word, and the last read since by each cluster.
#[derive(Debug, Default)]
pub(super) struct Word {
    pub(super) write: Option<(u32, Stamp)>,
    pub(super) reads: Vec<(u32, Stamp)>,
}

/// Bytes of a word.
pub(super) const WORD: u64 = 4;

impl Watched {
    pub(crate) fn new(ranges: Vec<Range<u64>>) -> Self {
        Self { ranges, words: HashMap::new() }
    }

    /// Whether some of the bytes are watched.
    pub(super) fn has(&self, from: u64, to: u64) -> bool {
        let at = self.ranges.partition_point(|range| range.end <= from);
        self.ranges.get(at).is_some_and(|range| range.start < to)
    }
}
