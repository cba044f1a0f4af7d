//! What the templates of the kernels for tiles of several block rows name.

use serde::Serialize;

use super::common::Common;
use super::{ListKernel, SharedLists};
use crate::{SharedColumns, TileScheduler};

/// Loads that a thread has on their way at the same time.
const LOADS: u32 = 4;

#[derive(Serialize)]
pub(super) struct SharedContext {
    #[serde(flatten)]
    common: Common,
    /// Block rows that a tile may have, and the bit of each in a word of a union.
    members: Vec<u32>,
    member_bits: Vec<u32>,
    ahead: Vec<u32>,
    /// Rows that a thread compares at the same time.
    tile: Vec<u32>,
    tile_bits: u32,
    /// Tables of `lop3`: at least two of three bits, and an odd number of them.
    majority: &'static str,
    parity: &'static str,
    packed_bytes: u32,
    meetings: [Meeting; SharedLists::PACKS.len()],
    mask_bits: u32,
    column_cost: u32,
    column_cost_bits: u32,
    head_columns: u32,
    outside: u32,
    no_row: u32,
    tile_bytes: usize,
}

/// Two groups of so many rows.
#[derive(Serialize)]
struct Meeting {
    pack: u32,
    members: Vec<u32>,
    /// A row of each of them.
    across: Vec<Two>,
    /// Two rows of the same group.
    within: Vec<Two>,
    /// Which of `across` meet, until the largest of all is the first.
    knockout: Vec<[usize; 2]>,
}

#[derive(Serialize)]
struct Two {
    number: usize,
    first: u32,
    second: u32,
}

impl Meeting {
    fn of(pack: u32) -> Self {
        let pairs = |is_one: &dyn Fn(u32, u32) -> bool| {
            let all = (0..pack).flat_map(|first| (0..pack).map(move |second| (first, second)));
            let some = all.filter(|(first, second)| is_one(*first, *second)).enumerate();
            some.map(|(number, (first, second))| Two { number, first, second }).collect()
        };
        let across: Vec<Two> = pairs(&|_, _| true);
        let steps = std::iter::successors(Some(1), |step| Some(2 * step)).take_while(|step| *step < across.len());
        let round = |step: usize| (0..across.len() - step).step_by(2 * step).map(move |first| [first, first + step]);
        Self {
            pack,
            members: (0..pack).collect(),
            within: pairs(&|first, second| first < second),
            knockout: steps.flat_map(round).collect(),
            across,
        }
    }
}

impl SharedContext {
    pub(super) fn of(kernel: ListKernel) -> Self {
        let members: Vec<u32> = (0..SharedColumns::MASK_BITS).collect();
        Self {
            common: Common::of(kernel),
            member_bits: members.iter().map(|member| 1 << member).collect(),
            members,
            ahead: (0..LOADS).collect(),
            tile: (0..1 << SharedLists::TILE_BITS).collect(),
            tile_bits: SharedLists::TILE_BITS,
            majority: "0xe8",
            parity: "0x96",
            packed_bytes: SharedLists::PACKED_BYTES,
            meetings: SharedLists::PACKS.map(Meeting::of),
            mask_bits: SharedColumns::MASK_BITS,
            column_cost: SharedLists::COLUMN_COST,
            column_cost_bits: SharedLists::COLUMN_COST.trailing_zeros(),
            head_columns: TileScheduler::HEAD_COLUMNS,
            outside: TileScheduler::OUTSIDE,
            no_row: SharedLists::NO_ROW,
            tile_bytes: 4 * SharedColumns::WORDS,
        }
    }
}
