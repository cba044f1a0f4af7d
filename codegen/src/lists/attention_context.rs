//! What the templates of the kernels that list an attention name.

use serde::Serialize;

use super::common::Common;
use super::{AttentionLists, ListKernel, PartialFlags};
use crate::AttentionTiles;

/// The consumers of the widest kernel.
const CONSUMERS: usize = 3;
/// Sets of consumers: every number of so many bits but 0.
const SETS: u32 = (1 << CONSUMERS) - 1;

/// The context of `lists/attention_steps.ptx` and `lists/attention_tiles.ptx`.
#[derive(Serialize)]
pub(super) struct AttentionContext {
    #[serde(flatten)]
    common: Common,
    /// The consumers, the sets that have one of them alone, and the byte of each in a number of what they have waited.
    sides: [u32; CONSUMERS],
    members: [u32; CONSUMERS],
    bytes: [u32; CONSUMERS],
    sets: u32,
    pairs: Vec<Pair>,
    /// The steps of a round, and what is none of them.
    turns: [u32; AttentionLists::ROUND as usize],
    no_turn: u32,
    entries_bytes: u32,
    order_bytes: u32,
    sums_bytes: u32,
    room_at: u32,
    flags: Flags,
    stored: u32,
    partial: u32,
    whole: u32,
}

/// Two sets of consumers whose columns are counted in one number: truth tables that find them.
#[derive(Serialize)]
struct Pair {
    number: u32,
    /// There is no set of the number 0.
    lower: Option<u32>,
    upper: u32,
}

/// The numbers of [`PartialFlags`] as the template names them.
#[derive(Serialize)]
struct Flags {
    all: u32,
    by_block: u32,
}

impl AttentionContext {
    pub(super) fn of(kernel: ListKernel) -> Self {
        let sides: [u32; CONSUMERS] = std::array::from_fn(|side| side as u32);
        Self {
            common: Common::of(kernel),
            sides,
            members: sides.map(|side| 1 << side),
            bytes: sides.map(|side| 0xff << (8 * side)),
            sets: SETS,
            pairs: (0..=SETS / 2).map(Pair::new).collect(),
            turns: std::array::from_fn(|turn| turn as u32),
            no_turn: AttentionLists::ROUND,
            entries_bytes: AttentionLists::ENTRIES_BYTES,
            order_bytes: AttentionLists::ORDER_BYTES,
            sums_bytes: AttentionLists::SUMS_BYTES,
            room_at: AttentionLists::SUMS_BYTES - 16,
            flags: Flags { all: PartialFlags::All as u32, by_block: PartialFlags::ByBlock as u32 },
            stored: AttentionTiles::STORED,
            partial: AttentionTiles::PARTIAL,
            whole: AttentionTiles::WHOLE,
        }
    }
}

impl Pair {
    fn new(number: u32) -> Self {
        Self { number, lower: (number > 0).then(|| table(2 * number)), upper: table(2 * number + 1) }
    }
}

/// The truth table of `lop3` for bits that are set for the consumers of one set, and for no others.
fn table(set: u32) -> u32 {
    let place = (0..CONSUMERS as u32).fold(0, |place, side| place << 1 | (set >> side & 1));
    1 << place
}
