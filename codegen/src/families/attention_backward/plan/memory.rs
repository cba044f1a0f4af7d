//! Step 4: shared memory: the tile's rows, where gradients are staged, the ring, barriers, words for the consumers.

use super::{Operands, Tiling};
use crate::hopper::ring::{ALIGN, BARRIER, MOST_STAGES};
use crate::plan::{GradientTiles, PlanError};
use crate::{Arch, KernelSpec};

/// Bytes of a word.
const WORD: u32 = 4;
/// Bytes of what the consumers are told of a step.
const STEP: u32 = WORD * GradientTiles::STEP_WORDS as u32;
/// Stages below which a product would wait for each load.
const FEWEST_STAGES: u32 = 2;

/// Where everything lies in shared memory, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Buffers of a tile's rows: with two, the next tile's are loaded before this one is stored.
    pub(crate) sets: u32,
    /// Bytes of a tile's rows, of S and of dP.
    pub(crate) fixed_bytes: [u32; 2],
    pub(crate) fixed_offsets: [u32; 2],
    /// O, and dQ where it was; nothing of a kernel of dK and dV, which are staged where K and V were.
    pub(crate) output_bytes: u32,
    pub(crate) output_offset: u32,
    /// Stages of the ring, the same of both operands.
    pub(crate) stages: u32,
    pub(crate) passing_bytes: [u32; 2],
    pub(crate) passing_offsets: [u32; 2],
    /// -LSE and delta of a step's queries, of a kernel of dK and dV.
    pub(crate) column_bytes: u32,
    pub(crate) columns_offset: u32,
    pub(crate) barriers_offset: u32,
    /// What consumers are told of each tile and of each step.
    pub(crate) records_offset: u32,
    pub(crate) words_offset: u32,
    pub(crate) total: u32,
}

impl Memory {
    pub(crate) fn new(spec: &KernelSpec, operands: &Operands, tiling: &Tiling, arch: &Arch) -> Result<Self, PlanError> {
        let aligned = |bytes: u32| bytes.next_multiple_of(ALIGN);
        let fixed_bytes = operands.fixed.map(|tile| aligned(tile.bytes()));
        let passing_bytes = operands.passing.map(|tile| aligned(tile.bytes()));
        let output_bytes = if tiling.is_of_keys() { 0 } else { fixed_bytes[0].max(fixed_bytes[1]) };
        let column_bytes = if tiling.is_of_keys() { 2 * WORD * tiling.step } else { 0 };
        let record = WORD * tiling.tiles().tiles.tile_words;
        let of_set = fixed_bytes.iter().sum::<u32>() + record + 2 * BARRIER;
        let of_stage = passing_bytes.iter().sum::<u32>() + column_bytes + STEP + 4 * BARRIER;
        // One pair of barriers of O, and words that are read as vectors of 16 bytes.
        let others = output_bytes + 2 * BARRIER + 16;
        let room = |sets: u32| arch.shared_bytes.saturating_sub(others + sets * of_set) / of_stage;
        let sets = if room(2) >= FEWEST_STAGES { 2 } else { 1 };
        let most = room(sets);
        let stages = spec.stages.unwrap_or(most.min(MOST_STAGES));
        if stages < FEWEST_STAGES || stages > most {
            return Err(PlanError::new(
                if spec.stages.is_some() { "stages" } else { "bn" },
                format!("{} stages do not fit this kernel", stages.max(FEWEST_STAGES)),
                format!(
                    "a tile takes {sets} x {} B and {output_bytes} B for O, and a stage {of_stage} B, {} {} x {} columns; a \
                     CTA has {} B: room for {most}, and at least {FEWEST_STAGES} are needed",
                    of_set,
                    tiling.step,
                    tiling.other_side().0,
                    tiling.columns_words(),
                    arch.shared_bytes
                ),
                match most >= FEWEST_STAGES {
                    true => format!("stages = {most}, or fewer"),
                    false => "k_step = ?, or bn = ?".to_owned(),
                },
            ));
        }
        let mut end = 0;
        let mut place = |bytes: u32| {
            let at = end;
            end += bytes;
            at
        };
        let fixed_offsets = fixed_bytes.map(|bytes| place(sets * bytes));
        let output_offset = place(output_bytes);
        let passing_offsets = passing_bytes.map(|bytes| place(stages * bytes));
        let columns_offset = place(stages * column_bytes);
        let records_offset = place(sets * record);
        let barriers_offset = place((2 * sets + 2 + 4 * stages) * BARRIER);
        let words_offset = place(stages * STEP);
        Ok(Self {
            sets,
            fixed_bytes,
            fixed_offsets,
            output_bytes,
            output_offset,
            stages,
            passing_bytes,
            passing_offsets,
            column_bytes,
            columns_offset,
            barriers_offset,
            records_offset,
            words_offset,
            total: end,
        })
    }

    /// Barriers of full and of empty buffers of a tile's rows.
    pub(crate) fn fixed_full(&self) -> u32 {
        self.barriers_offset
    }

    /// That of O, then that of the same buffer once dQ is stored.
    pub(crate) fn output_full(&self) -> u32 {
        self.barriers_offset + 2 * self.sets * BARRIER
    }

    /// Barriers of full stages of both operands; those of empty ones follow those of each.
    pub(crate) fn passing_full(&self) -> [u32; 2] {
        let first = self.output_full() + 2 * BARRIER;
        [first, first + 2 * self.stages * BARRIER]
    }
}
