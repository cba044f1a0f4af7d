//! The work tiles that a kernel reads: their layout in memory, and what words of them lead to.

use serde::Serialize;

use super::super::plan::WarpPlan;
use super::division::Division;
use crate::plan::{Problem, ProblemRecord, TileScheduler};

/// A work tile is one register: each lane has a word of it.
#[derive(Serialize)]
pub(super) struct WorkTile {
    bytes: u32,
    /// Lanes after which words repeat, and that less one.
    lanes: u32,
    mask: u32,
    /// The last word, where a work tile has fewer words than that.
    last: Option<u32>,
    /// The word, and the register with it, that lead to the first of a tile's blocks among those of all.
    first: u32,
    first_register: &'static str,
    rows: Division,
    /// What a tile is besides its place is needed again when it is complete.
    kept: bool,
    /// Block columns of the first work tile of each CTA, in bytes.
    head: u32,
}

/// What leads to the record of a work tile's problem.
#[derive(Serialize)]
pub(super) struct Batch {
    /// The word of a work tile with the number of its problem.
    word: u32,
    record: u32,
    /// Bytes from a record's beginning.
    k: u32,
    ldb: u32,
    /// Of kernels that load by TMA, bytes of a tensor map and of those of a problem.
    map: u32,
    maps: u32,
}

/// The word of a work tile with the number of its problem.
const PROBLEM: u32 = 4;
/// Bytes of a tensor map.
const MAP: u32 = 128;

impl WorkTile {
    pub(super) fn new(plan: &WarpPlan, words: u32) -> Self {
        let batch = plan.spec.batch.is_on();
        let lanes = words.next_power_of_two();
        Self {
            bytes: 4 * words,
            lanes,
            mask: lanes - 1,
            last: (words < lanes).then_some(words - 1),
            // Of a list of problems the first block is said; of one it follows from the rows of the blocks before it.
            first: if batch { 5 } else { 2 },
            first_register: if batch { "%r_work_first" } else { "%r_a_row" },
            rows: Division::by(if batch { 1 } else { plan.spec.bm }),
            kept: batch || plan.spec.split.is_on(),
            head: 4 * TileScheduler::HEAD_COLUMNS,
        }
    }
}

impl Batch {
    /// None of a kernel for one product a launch.
    pub(super) fn new(plan: &WarpPlan) -> Option<Self> {
        let maps = plan.maps(&Problem::default()).len() as u32;
        plan.spec.batch.is_on().then_some(Self {
            word: PROBLEM,
            record: ProblemRecord::BYTES,
            k: ProblemRecord::K,
            ldb: ProblemRecord::LDB,
            map: MAP,
            maps: maps * MAP,
        })
    }

    /// The same with the number in another word.
    pub(super) fn with_word(self, word: u32) -> Self {
        Self { word, ..self }
    }
}
