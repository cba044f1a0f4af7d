//! A matrix in blocks in the simulator's memory.

use bsr_codegen::Dtype;
use bsr_simulator::BufferId;

use crate::Structure;
use crate::gpu::{Fingerprint, Stored};

/// A block-sparse matrix in the simulator's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'h> {
    pub(super) structure: &'h Structure,
    pub(super) dtype: Dtype,
    pub(super) values: BufferId,
    /// Slots for blocks that no block has.
    pub(super) spare: usize,
    /// Whether they are the result.
    pub(super) is_written: bool,
}

impl<'h> Blocks<'h> {
    /// A factor.
    pub(crate) fn new(structure: &'h Structure, dtype: Dtype, values: BufferId) -> Self {
        Self { structure, dtype, values, spare: 0, is_written: false }
    }
}

impl Stored for Blocks<'_> {
    type Address = BufferId;

    fn structure(&self) -> &Structure {
        self.structure
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        Some(Fingerprint::of(self.structure))
    }

    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn range(&self) -> (BufferId, BufferId) {
        (self.values, self.values)
    }

    fn places(&self) -> usize {
        self.structure.nnzb() + self.spare
    }
}
