//! The ring of stages in shared memory that a producer fills and the consumers empty.

use serde::Serialize;

/// Bytes of one mbarrier.
pub(crate) const BARRIER: u32 = 8;
/// Stages beyond which a deeper ring hides nothing more.
pub(crate) const MOST_STAGES: u32 = 8;
/// A 128-byte swizzle repeats every 8 rows: stages and staging buffers start on multiples of this.
pub(crate) const ALIGN: u32 = 1024;

/// The stages, and two barriers of each: full, which the bytes that TMA delivers complete, and empty, which the consumers
/// complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Ring {
    pub(crate) stages: u32,
    pub(crate) stage_bytes: u32,
    /// Offset of the full barriers; the empty ones follow.
    pub(crate) full_offset: u32,
    /// Arrivals that complete an empty barrier.
    pub(crate) empty_arrivals: u32,
}

impl Ring {
    pub(crate) fn empty_offset(&self) -> u32 {
        self.full_offset.saturating_add(self.stages.saturating_mul(BARRIER))
    }

    /// The first byte behind the barriers.
    pub(crate) fn end(&self) -> u32 {
        self.empty_offset().saturating_add(self.stages.saturating_mul(BARRIER))
    }

    /// What templates name of it: `full_arrivals` complete a full barrier with the bytes, and `operand` says from where on
    /// how many barriers of the epilogue's full operand stand.
    pub(crate) fn context(&self, full_arrivals: u32, operand: Option<(u32, u32)>) -> RingContext {
        let (first, count) = operand.unwrap_or((self.full_offset, 0));
        RingContext {
            stages: self.stages,
            stage_bytes: self.stage_bytes,
            stage_units: self.stage_bytes / 16,
            full_offset: self.full_offset,
            empty_offset: self.empty_offset(),
            full_arrivals,
            empty_arrivals: self.empty_arrivals,
            barriers: (0..self.stages).map(|stage| stage * BARRIER).collect(),
            operand_barriers: (0..count).map(|consumer| first - self.full_offset + BARRIER * consumer).collect(),
        }
    }
}

/// What templates name of a ring.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RingContext {
    stages: u32,
    stage_bytes: u32,
    /// The same in units of 16 bytes, as matrix descriptors count.
    stage_units: u32,
    full_offset: u32,
    empty_offset: u32,
    full_arrivals: u32,
    empty_arrivals: u32,
    /// Bytes from the first full barrier to each of them; the same for the empty ones.
    barriers: Vec<u32>,
    /// Barriers of the epilogue's full operand, from the first full barrier on.
    operand_barriers: Vec<u32>,
}
