//! A warpgroup: the matrix multiplies that its warps have issued.

use std::collections::VecDeque;

use crate::check::clock::View;
use crate::check::shadow::Stamp;

/// The accumulators that are not in their registers: row-major, of the operations' type.
#[derive(Debug, Default)]
pub(crate) struct Accumulators {
    /// The instruction that has added to them last.
    pub(crate) resident: Option<u32>,
    pub(crate) floats: Vec<f32>,
    pub(crate) integers: Vec<i32>,
}

#[derive(Clone, Debug)]
pub(crate) struct WgOp {
    pub(crate) pc: u32,
    pub(crate) desc_a: u64,
    pub(crate) desc_b: u64,
    pub(crate) scale_d: bool,
    /// Bit per warp of the group.
    pub(crate) joined: u32,
    pub(crate) done: bool,
    pub(crate) view: View,
    pub(crate) stamp: Stamp,
    pub(crate) issued: u64,
    pub(crate) due: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    /// Number of the operation at the front.
    pub(crate) first: u64,
    pub(crate) ops: VecDeque<WgOp>,
    /// Operations done: all before this number.
    pub(crate) done: u64,
    pub(crate) accumulators: Accumulators,
}

/// The four warps.
pub(crate) const ALL: u32 = 0xf;

impl Warpgroup {
    pub(crate) fn get(&self, number: u64) -> Option<&WgOp> {
        self.ops.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Can the next operation run?
    pub(crate) fn ready(&self) -> bool {
        self.get(self.done).is_some_and(|o| o.joined == ALL)
    }

    /// Have the four warps issued every operation before `target`?
    pub(crate) fn issued(&self, target: u64) -> bool {
        (self.done..target).all(|n| self.get(n).is_some_and(|o| o.joined == ALL))
    }
}
