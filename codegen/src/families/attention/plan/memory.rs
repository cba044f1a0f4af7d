//! Step 4: shared memory: Q and where O is staged, the rings of K and V, barriers, words for the consumers.

use super::{Slices, Tiling, joined};
use crate::hopper::OperandTile;
use crate::hopper::ring::{ALIGN, BARRIER, MOST_STAGES};
use crate::plan::PlanError;
use crate::{Arch, KernelSpec};

/// Shared memory of a CTA of those that share an SM.
fn shared_bytes(tiling: &Tiling, arch: &Arch) -> u32 {
    (arch.shared_bytes_per_sm / tiling.roles.resident - arch.shared_bytes_reserved).min(arch.shared_bytes)
}

/// Bytes of a word: of the record of a tile, and of each run of keys of a step.
const WORD: u32 = 4;
/// What the memory for slices begins at a multiple of: vectors of 16 bytes.
const SLICES_ALIGN: u32 = 16;
/// Stages below which a product would wait for each load.
const FEWEST_STAGES: u32 = 2;

/// `2 x 16384 B`, or `24576 B + 16384 B`.
fn pair_words(of_keys: u32, of_values: u32) -> String {
    match of_keys == of_values {
        true => format!("2 x {of_keys} B"),
        false => format!("{of_keys} B + {of_values} B"),
    }
}

/// The layout of shared memory, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Buffers of Q: with two, the next tile's is loaded while this one's O is stored from its own.
    pub(crate) query_stages: u32,
    pub(crate) query_bytes: u32,
    /// Stages of the ring of K, and of that of V.
    pub(crate) stages: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) keys_offset: u32,
    pub(crate) values_offset: u32,
    /// Barriers: full and empty of Q, of K, of V.
    pub(crate) barriers_offset: u32,
    /// The records for consumers: of the tile in each buffer of Q, and of the step in each stage of K.
    pub(crate) records_offset: u32,
    pub(crate) words_offset: u32,
    /// The barrier of the last page of V, which the producer cuts off behind the last key. Where there are pages.
    pub(crate) tail_offset: u32,
    pub(crate) total: u32,
}

impl Memory {
    pub(crate) fn new(
        spec: &KernelSpec,
        [queries, keys, values, output]: &[OperandTile; 4],
        tiling: &Tiling,
        arch: &Arch,
    ) -> Result<Self, PlanError> {
        let query_bytes = queries.bytes().max(output.bytes()).next_multiple_of(ALIGN);
        let [key_bytes, value_bytes] = [keys, values].map(|tile| tile.bytes().next_multiple_of(ALIGN));
        let of_query = query_bytes + 2 * BARRIER + WORD * tiling.words;
        let of_stage = key_bytes + value_bytes + 2 * 2 * BARRIER + WORD * joined::words(spec, tiling);
        // Words are read as vectors of 16 bytes.
        let slices = Slices::new(spec, tiling, queries, arch).map_or(0, |slices| slices.bytes() + SLICES_ALIGN);
        let spare = if spec.page.is_some() { 16 + BARRIER } else { 16 + slices };
        let shared = shared_bytes(tiling, arch);
        let room = |query_stages: u32| (shared - spare).saturating_sub(query_stages * of_query) / of_stage;
        // Another CTA of the SM computes while this one stores O from its only buffer.
        let query_stages = if tiling.roles.resident == 1 && room(2) >= FEWEST_STAGES { 2 } else { 1 };
        let most = room(query_stages);
        let stages = spec.stages.unwrap_or(most.min(MOST_STAGES));
        if stages < FEWEST_STAGES || stages > most {
            return Err(PlanError::new(
                if spec.stages.is_some() { "stages" } else { "bn" },
                format!("{} stages do not fit shared memory", stages.max(FEWEST_STAGES)),
                format!(
                    "Q takes {query_stages} x {query_bytes} B and a stage {}, K and V of {} keys x {} columns; a CTA has {} B: \
                     room for {most}, and at least {FEWEST_STAGES} are needed",
                    pair_words(key_bytes, value_bytes),
                    tiling.step,
                    tiling.columns_words(),
                    shared
                ),
                match most >= FEWEST_STAGES {
                    true => format!("stages = {most}, or fewer"),
                    false => "k_step = ?, or bn = ?".to_owned(),
                },
            ));
        }
        let keys_offset = query_stages * query_bytes;
        let values_offset = keys_offset + stages * key_bytes;
        let records_offset = values_offset + stages * value_bytes;
        let barriers_offset = records_offset + query_stages * WORD * tiling.words;
        let words_offset = barriers_offset + (2 * query_stages + 4 * stages) * BARRIER;
        let words_end = words_offset + stages * WORD * joined::words(spec, tiling);
        let tail_offset = words_end.next_multiple_of(BARRIER);
        let total = match spec.page {
            Some(_) => tail_offset + BARRIER,
            None if slices > 0 => tail_offset.next_multiple_of(SLICES_ALIGN) + slices - SLICES_ALIGN,
            None => words_end,
        };
        Ok(Self {
            query_stages,
            query_bytes,
            stages,
            key_bytes,
            value_bytes,
            keys_offset,
            values_offset,
            barriers_offset,
            records_offset,
            words_offset,
            tail_offset,
            total,
        })
    }

    /// Bytes of a stage of K and of one of V.
    pub(crate) fn stage_words(&self) -> String {
        pair_words(self.key_bytes, self.value_bytes)
    }

    /// Barriers of full and of empty buffers of Q.
    pub(crate) fn queries_full(&self) -> u32 {
        self.barriers_offset
    }

    /// Barriers of full stages of K; those of empty ones, then the same of V, follow.
    pub(crate) fn keys_full(&self) -> u32 {
        self.barriers_offset + 2 * self.query_stages * BARRIER
    }

    /// What slices of a tile's steps are merged through.
    pub(crate) fn slices_offset(&self) -> u32 {
        self.tail_offset.next_multiple_of(SLICES_ALIGN)
    }

    /// Barriers of full stages of V.
    pub(crate) fn values_full(&self) -> u32 {
        self.keys_full() + 2 * self.stages * BARRIER
    }

    /// Is the last tile's buffer given back only under the next tile's first product?
    pub(crate) fn releases_late(&self) -> bool {
        self.query_stages > 1
    }
}
